package persistencetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// growing appends a message in progress with some text.
func (b bundle) growing(t *testing.T) thread.Message {
	t.Helper()
	m := text(thread.RoleAssistant, "One")
	m.Metadata.Status = thread.StatusInProgress
	return b.append(t, m)
}

// draft saves what was added to a message.
func (b bundle) draft(t *testing.T, id string, start int, words string) {
	t.Helper()
	applied, err := Apply(t.Context(), b.store, b.key, []persistence.Change{
		persistence.PutDraft{Draft: persistence.Draft{MessageID: id, Start: start, Text: words}},
	})
	if err != nil || len(applied.Messages)+len(applied.Lost) != 0 {
		t.Fatalf("Apply() = %+v, %v", applied, err)
	}
}

// says checks a message's text, wherever it is read.
func (b bundle) says(t *testing.T, id, want string) {
	t.Helper()
	m, err := b.store.Message(t.Context(), b.key, id)
	if err != nil || m.Text() != want {
		t.Errorf("Message() says %q, %v, want %q", m.Text(), err, want)
	}
	all, err := b.store.Messages(t.Context(), b.key, 0, 0)
	must(t, err)
	for _, m := range all {
		if m.ID == id && m.Text() != want {
			t.Errorf("Messages() says %q, want %q", m.Text(), want)
		}
	}
	_, rows := table(t, b.url, "SELECT text FROM conversation_transcript WHERE message_id = '"+id+"'")
	if len(rows) != 1 || rows[0][0] != want {
		t.Errorf("conversation_transcript says %q, want %q", rows, want)
	}
}

func (b bundle) draftsLeft(t *testing.T) int {
	t.Helper()
	_, rows := table(t, b.url, "SELECT message_id FROM drafts")
	return len(rows)
}

func (s suite) drafts(t *testing.T) {
	b := s.setup(t)
	m := b.growing(t)
	before := m.Revision
	b.draft(t, m.ID, 3, ", twö")
	b.draft(t, m.ID, 9, ", three")
	b.draft(t, m.ID, 3, ", twö") // again: it has no further effect
	b.says(t, m.ID, "One, twö, three")
	if again, err := b.store.Message(t.Context(), b.key, m.ID); err != nil || again.Revision != before {
		t.Errorf("a draft changes the revision from %d to %d, %v", before, again.Revision, err)
	}
	if replay, err := b.store.Replay(t.Context(), b.key, 10); err != nil || len(replay) != 0 {
		t.Errorf("Replay() = %v, %v, want nothing of what is in progress", replay, err)
	}
	// Inserting a message before it moves it, together with its drafts.
	must(t, errOf(InsertMessage(t.Context(), b.store, b.key, text(thread.RoleUser, "Count!"), "")))
	b.says(t, m.ID, "One, twö, three")

	// The whole message replaces its drafts. A late draft changes nothing.
	m.Parts = []thread.Part{thread.TextPart("One, twö, three, four")}
	must(t, errOf(UpdateMessage(t.Context(), b.store, b.key, m)))
	b.says(t, m.ID, "One, twö, three, four")
	testkit.Equal(t, b.draftsLeft(t), 0, "drafts are left")
	m.Metadata.Status = thread.StatusCompleted
	must(t, errOf(UpdateMessage(t.Context(), b.store, b.key, m)))
	b.draft(t, m.ID, 9, ", three")
	b.draft(t, m.ID, 22, ", five")
	b.draft(t, "nobody", 0, "x")
	b.says(t, m.ID, "One, twö, three, four")
	testkit.Equal(t, b.draftsLeft(t), 0, "drafts of a finished message")
	for _, bad := range []persistence.Draft{{}, {MessageID: m.ID, Start: -1}, {MessageID: m.ID, Start: thread.MaxMessageBytes, Text: "x"}} {
		applied, err := Apply(t.Context(), b.store, b.key, []persistence.Change{persistence.PutDraft{Draft: bad}})
		if err != nil || len(applied.Lost) != 1 || !errors.Is(applied.Lost[0].Err, persistence.ErrInvalid) {
			t.Errorf("Apply(%+v) = %+v, %v, want ErrInvalid", bad, applied, err)
		}
	}
}

// strangersDrafts checks that only the owner can save a draft, and that drafts are deleted
// with their thread.
func (s suite) strangersDrafts(t *testing.T) {
	b := s.setup(t)
	m := b.growing(t)
	bob := b
	bob.key.Owner = "bob"
	bob.draft(t, m.ID, 3, ", two")
	b.says(t, m.ID, "One")
	b.draft(t, m.ID, 3, ", two")
	must(t, b.store.DeleteThread(t.Context(), b.key))
	testkit.Equal(t, b.draftsLeft(t), 0, "drafts of a deleted thread")
}

// recoverDrafts checks that the drafts of a killed process are kept, even those that come
// from its spool after its messages were closed.
func (s suite) recoverDrafts(t *testing.T) {
	b := s.serving(t)
	m := b.growing(t)
	b.draft(t, m.ID, 3, ", two")
	b = b.restart(t)
	_, err := b.store.Recover(t.Context())
	must(t, err)
	b.says(t, m.ID, "One, two")
	b.draft(t, m.ID, 3, ", two")
	b.draft(t, m.ID, 8, ", three")
	b.draft(t, m.ID, 99, ", a hundred")
	b.says(t, m.ID, "One, two, three")
	if got, err := b.store.Message(t.Context(), b.key, m.ID); err != nil || got.Metadata.Status != thread.StatusInterrupted {
		t.Errorf("status %s, %v", got.Metadata.Status, err)
	}
	testkit.Equal(t, b.draftsLeft(t), 0, "drafts are left")
}

// watchDrafts checks that a watcher gets each piece of text once, whatever it has missed.
func (s suite) watchDrafts(t *testing.T) {
	b := s.setup(t)
	m := b.growing(t)
	w := startWatch(Within(t), t, b.store, b.key, m.Revision)
	hello := w.event()
	if hello.Type != persistence.EventMessage || hello.Seq != 0 || !strings.Contains(string(hello.Data), `"One"`) {
		t.Fatalf("the watch begins with %+v", hello)
	}
	delta := func(want string) {
		t.Helper()
		e := w.event()
		var data map[string]string
		if err := json.Unmarshal(e.Data, &data); err != nil || e.Type != persistence.EventMessageDelta ||
			len(data) != 2 || data["id"] != m.ID || data["text"] != want {
			t.Fatalf("event %s %s (%v), want %q", e.Type, e.Data, err, want)
		}
	}
	publish := func(start int, words string) {
		data, err := json.Marshal(persistence.Delta{ID: m.ID, Start: &start, Text: words})
		must(t, err)
		b.store.Publish(t.Context(), b.key, persistence.Event{Type: persistence.EventMessageDelta, Data: data})
	}
	publish(3, ", two")
	delta(", two")
	publish(3, ", two, three") // partly known already
	delta(", three")
	// A piece was missed: it is read from the table.
	b.draft(t, m.ID, 3, ", two, three, four")
	publish(21, ", five")
	delta(", four")
	delta(", five")
	// A message was saved with less text than was sent: the rest is sent again.
	m.Parts = []thread.Part{thread.TextPart("One, two")}
	if _, err := UpdateMessage(t.Context(), b.store, b.key, m); err != nil {
		t.Fatal(err)
	}
	if got := w.message(); got.Text() != "One, two" {
		t.Fatalf("message %q", got.Text())
	}
	delta(", three, four, five")
	m.Parts, m.Metadata.Status = []thread.Part{thread.TextPart("One to five")}, thread.StatusCompleted
	if _, err := UpdateMessage(t.Context(), b.store, b.key, m); err != nil {
		t.Fatal(err)
	}
	if got := w.message(); got.Text() != "One to five" {
		t.Fatalf("message %q", got.Text())
	}
	publish(27, ", late") // for a finished message: nobody gets it
	last := b.append(t, text(thread.RoleUser, "end"))
	if got := w.message(); got.ID != last.ID {
		t.Errorf("message %q, want the last one", got.Text())
	}
}
