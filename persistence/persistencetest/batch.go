package persistencetest

import (
	"errors"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

func (s suite) batch(t *testing.T) {
	b := s.setup(t)
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		first, err := w.AppendMessage(text(thread.RoleUser, "b"))
		if err != nil {
			return err
		}
		if _, err := w.InsertMessage(text(thread.RoleUser, "a"), ""); err != nil {
			return err
		}
		first.Parts[0].Text = "c"
		if _, err := w.UpdateMessage(first); err != nil {
			return err
		}
		return errors.Join(
			w.Records.SaveCall(records.Call{ID: "call"}),
			w.Records.SaveToolCall(thread.ToolCall{ID: "tool", Status: thread.ToolCallRunning}),
			w.Records.SaveResponse(records.Response{ID: "response"}),
		)
	})
	must(t, err)
	testkit.Equal(t, words(b.all(t)), "a c", "the thread is, want a c")
	for _, name := range []string{"calls", "tool_calls", "responses"} {
		if _, rows := table(t, b.url, "SELECT id FROM "+name); len(rows) != 1 {
			t.Errorf("%s has %d rows, want 1", name, len(rows))
		}
	}
}

func (s suite) batchRollsBack(t *testing.T) {
	b := s.setup(t)
	b.append(t, text(thread.RoleUser, "before"))
	write := func(w *persistence.Batch) error {
		_, err := w.AppendMessage(text(thread.RoleUser, "x"))
		return errors.Join(err, w.Records.SaveCall(records.Call{ID: "call"}), w.Records.SaveResponse(records.Response{ID: "response"}))
	}
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		fn   func(*persistence.Batch) error
		want error
	}{
		"own error": {func(*persistence.Batch) error { return mine }, mine},
		"bad message": {func(w *persistence.Batch) error {
			_, err := w.AppendMessage(thread.Message{})
			return err
		}, persistence.ErrInvalid},
		"swallowed error": {func(w *persistence.Batch) error {
			_ = w.Records.SaveCall(records.Call{ID: "second"}) // there is a live call already
			if _, err := w.AppendMessage(text(thread.RoleUser, "y")); err == nil {
				t.Error("a write after a failed one succeeds")
			}
			return nil
		}, persistence.ErrConflict},
	} {
		err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
			return errors.Join(write(w), c.fn(w))
		})
		wantErr(t, "Batch() with "+name, err, c.want)
	}
	testkit.Equal(t, words(b.all(t)), "before", "the thread is")
	if seq, err := b.store.LastSeq(t.Context(), b.key); err != nil || seq != 1 {
		t.Errorf("LastSeq() = %d, %v, want 1", seq, err)
	}
	for _, name := range []string{"calls", "responses"} {
		if _, rows := table(t, b.url, "SELECT id FROM "+name); len(rows) != 0 {
			t.Errorf("%s has %d rows, want none", name, len(rows))
		}
	}
}
