package persistencetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// claim begins a turn in its own batch.
func claim(t *testing.T, store *persistence.Store, key thread.Key, id string) error {
	t.Helper()
	return store.Batch(t.Context(), key, func(w *persistence.Batch) error { return w.ClaimTurn(id) })
}

func (s suite) turns(t *testing.T) {
	b := s.setup(t)
	other := Open(t, b.url, persistence.Options{})
	end := func(id string) error {
		return b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: id}) })
	}
	wantErr(t, "RunningTurn() before any", errOf(b.store.RunningTurn(t.Context(), b.key)), persistence.ErrNotFound)
	wantErr(t, "StopTurn() before any", b.store.StopTurn(t.Context(), b.key), persistence.ErrNotFound)
	must(t, claim(t, b.store, b.key, "one"))
	for _, store := range []*persistence.Store{b.store, other} {
		wantErr(t, "ClaimTurn() of a second", claim(t, store, b.key, "two"), persistence.ErrConflict)
	}
	if got, err := other.RunningTurn(t.Context(), b.key); err != nil || got.ID != "one" || got.Instance != b.store.Instance() {
		t.Errorf("RunningTurn() = %+v, %v", got, err)
	}
	// Another thread is not affected.
	must(t, claim(t, b.store, newThread(t, b.store, "anna"), "one"))
	if stop, err := holdTurn(t, b.store, b.key, "one"); stop || err != nil {
		t.Errorf("RunningTurn() = %v, %v", stop, err)
	}
	must(t, other.StopTurn(t.Context(), b.key))
	if stop, err := holdTurn(t, b.store, b.key, "one"); !stop || err != nil {
		t.Errorf("RunningTurn() after StopTurn() = %v, %v", stop, err)
	}
	wantErr(t, "RunningTurn() of another turn", errOf(holdTurn(t, b.store, b.key, "two")), persistence.ErrNotFound)
	must(t, errors.Join(end("two"), end("one"), end("one")))
	must(t, claim(t, other, b.key, "two"))
	if stop, err := holdTurn(t, other, b.key, "two"); stop || err != nil {
		t.Errorf("RunningTurn() of the next = %v, %v: it was not asked to stop", stop, err)
	}
}

// lostTurn fences the process that has a turn: the next turn takes the thread, and the old one can no
// longer write.
func (s suite) lostTurn(t *testing.T) {
	b := s.serving(t)
	must(t, claim(t, b.store, b.key, "old"))
	Rows(t, b.url, "UPDATE turns SET instance = 'dead'")
	must(t, errOf(b.store.Recover(t.Context())))
	wantErr(t, "RunningTurn() of one that is lost", errOf(b.store.RunningTurn(t.Context(), b.key)), persistence.ErrNotFound)
	wantErr(t, "StopTurn() of one that is lost", b.store.StopTurn(t.Context(), b.key), persistence.ErrNotFound)
	must(t, claim(t, b.store, b.key, "new"))
	for n, turn := range []string{"old", "new", "old"} {
		b.applySaid(t, turn)
		testkit.Equal(t, words(b.all(t)), "new"[:min(3*n, 3)], "after changes of the turn %s the thread", turn)
	}
	wantErr(t, "RunningTurn() after the end", errOf(b.store.RunningTurn(t.Context(), b.key)), persistence.ErrNotFound)
	wantRows(t, b.url, "SELECT type, data FROM events WHERE thread_id = '' AND type = 'turn_finished'",
		`turn_finished {"thread_id":"`+b.key.Thread+`","turn_id":"new"}`)
}

// applySaid applies what a turn says and its end, as read from a file.
func (b bundle) applySaid(t *testing.T, turn string) {
	t.Helper()
	m := text(thread.RoleAssistant, "n")
	m.ID, m.Metadata.Status, m.Parts[0].Text = "answer", thread.StatusInProgress, turn[:1]
	data, err := json.Marshal(persistence.Changes{
		persistence.PutMessage{Message: m, Turn: turn},
		persistence.PutDraft{Draft: persistence.Draft{MessageID: "answer", Start: 1, Text: turn[1:]}, Turn: turn},
		persistence.PutTurn{ID: turn, Data: json.RawMessage(`{"turn_id":"` + turn + `"}`)},
	})
	must(t, err)
	var changes persistence.Changes
	must(t, json.Unmarshal(data, &changes))
	applied, err := b.store.ApplyAll(t.Context(), []persistence.ThreadChanges{{Key: b.key, Changes: changes}})
	if err != nil || len(applied[0].Lost) > 0 {
		t.Errorf("ApplyAll() of the turn %s = %+v, %v", turn, applied, err)
	}
	_, err = b.store.Recover(t.Context()) // has events numbered
	must(t, err)
}

func (s suite) concurrentClaims(t *testing.T) {
	b := s.setup(t)
	other := Open(t, b.url, persistence.Options{})
	var won atomic.Int32
	var running sync.WaitGroup
	for i := range 20 {
		store := b.store
		if i%2 == 0 {
			store = other
		}
		running.Go(func() {
			err := claim(t, store, b.key, string(rune('a'+i)))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, persistence.ErrConflict) {
				t.Errorf("ClaimTurn() = %v", err)
			}
		})
	}
	running.Wait()
	testkit.Equal(t, won.Load(), 1, "turns run on one thread")
}

func (s suite) recoverTurns(t *testing.T) {
	b := s.serving(t)
	must(t, claim(t, b.store, b.key, "dead"))
	must(t, b.store.Records.SaveToolCall(t.Context(), b.key, thread.ToolCall{ID: "w", ToolCallID: "c", Status: thread.ToolCallWaiting}))
	b = b.restart(t)
	mine := newThread(t, b.store, "anna")
	must(t, claim(t, b.store, mine, "mine"))
	_, err := b.store.Recover(t.Context())
	must(t, err)
	must(t, claim(t, b.store, b.key, "next"))
	wantErr(t, "ClaimTurn() of what lives", claim(t, b.store, mine, "next"), persistence.ErrConflict)
	// A tool call that waits for the client goes on waiting.
	wantRows(t, b.url, "SELECT status FROM tool_calls", "waiting")
}

func (s suite) toolCallsInBatch(t *testing.T) {
	b := s.setup(t)
	other := newThread(t, b.store, "anna")
	m := b.append(t, text(thread.RoleAssistant, "calls"))
	for i, c := range []thread.ToolCall{
		{ID: "1", ToolCallID: "same", Status: thread.ToolCallDone, StartedAt: start},
		{ID: "3", ToolCallID: "b", Status: thread.ToolCallWaiting, StartedAt: start.Add(2 * time.Second)},
		{ID: "2", ToolCallID: "same", MessageID: m.ID, Status: thread.ToolCallWaiting, Input: "{}", StartedAt: start.Add(time.Second)},
	} {
		if err := b.store.Records.SaveToolCall(t.Context(), b.key, c); err != nil {
			t.Fatalf("SaveToolCall(%d) = %v", i, err)
		}
	}
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		waiting, err := w.Records.WaitingToolCalls()
		var ids []string
		for _, c := range waiting {
			ids = append(ids, c.ID)
		}
		if err != nil || !slices.Equal(ids, []string{"2", "3"}) {
			t.Errorf("WaitingToolCalls() = %v, %v, want 2 and 3", ids, err)
		}
		c, found, err := w.Records.ToolCall("same")
		want := thread.ToolCall{ID: "2", ToolCallID: "same", MessageID: m.ID, Status: thread.ToolCallWaiting, Input: "{}", StartedAt: start.Add(time.Second)}
		if d := diff(want, c); !found || err != nil || d != "" {
			t.Errorf("ToolCall() = %v, %v, differs (-want +got):\n%s", found, err, d)
		}
		for _, id := range []string{"none", "", "\x00\xff"} {
			if _, found, err := w.Records.ToolCall(id); found || err != nil {
				t.Errorf("ToolCall(%q) = %v, %v", id, found, err)
			}
		}
		got, err := w.Message(m.ID)
		if err != nil || got.Text() != "calls" {
			t.Errorf("Message() = %+v, %v", got, err)
		}
		got.Parts[0].Text = "changed"
		_, err = w.UpdateMessage(got)
		return err
	})
	must(t, err)
	testkit.Equal(t, words(b.all(t)), "changed", "the thread is")
	err = b.store.Batch(t.Context(), other, func(w *persistence.Batch) error {
		if _, found, err := w.Records.ToolCall("same"); found || err != nil {
			t.Errorf("ToolCall() of another thread = %v, %v", found, err)
		}
		_, err := w.Message(m.ID)
		return err
	})
	wantErr(t, "Message() of another thread", err, persistence.ErrNotFound)
}

// readAndWrite adds parts to a message from several goroutines at once, each time reading and
// updating it in one batch: none is lost.
func (s suite) readAndWrite(t *testing.T) {
	b := s.setup(t)
	m := b.append(t, text(thread.RoleAssistant, ""))
	const each, writers = 10, 4
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range each {
				err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
					got, err := w.Message(m.ID)
					if err != nil {
						return err
					}
					got.Parts = append(got.Parts, thread.StepStart())
					_, err = w.UpdateMessage(got)
					return err
				})
				if err != nil {
					t.Errorf("Batch() = %v", err)
				}
			}
		})
	}
	running.Wait()
	if got, err := b.store.Message(t.Context(), b.key, m.ID); err != nil || len(got.Parts) != 1+each*writers {
		t.Errorf("the message has %d parts, %v, want %d", len(got.Parts), err, 1+each*writers)
	}
}

func (s suite) textSessions(t *testing.T) {
	b := s.setup(t)
	wantErr(t, "TextSession() before any", errOf(b.store.TextSession(t.Context(), b.key)), persistence.ErrNotFound)
	want := persistence.TextSession{Provider: "openai", Model: "gpt", Tools: `[{"b":1,"a":"\u0000"}]`, Defaults: `{}`, CreatedAt: start}
	must(t, saveTextSession(t, b.store, b.key, want))
	got, err := b.store.TextSession(t.Context(), b.key)
	if err != nil || got != want {
		t.Errorf("TextSession() = %+v, %v, want %+v", got, err, want)
	}
	changed := want
	changed.Model, changed.Tools, changed.CreatedAt = "other", "", start.Add(time.Hour)
	must(t, saveTextSession(t, b.store, b.key, changed))
	changed.CreatedAt = start
	if got, err := b.store.TextSession(t.Context(), b.key); err != nil || got != changed {
		t.Errorf("TextSession() = %+v, %v, want %+v", got, err, changed)
	}
	wantErr(t, "SaveTextSession() of no JSON", saveTextSession(t, b.store, b.key, persistence.TextSession{Tools: "{"}), persistence.ErrInvalid)
	for _, key := range []thread.Key{{Owner: "bert", Thread: b.key.Thread}, {Owner: "anna", Thread: "none"}, {}} {
		wantErr(t, "TextSession() of a stranger", errOf(b.store.TextSession(t.Context(), key)), persistence.ErrNotFound)
		wantErr(t, "SaveTextSession() of a stranger", saveTextSession(t, b.store, key, want), persistence.ErrNotFound)
		wantErr(t, "ClaimTurn() of a stranger", claim(t, b.store, key, "x"), persistence.ErrNotFound)
		wantErr(t, "StopTurn() of a stranger", b.store.StopTurn(t.Context(), key), persistence.ErrNotFound)
	}
}

func (s suite) titles(t *testing.T) {
	b := s.setup(t)
	key := NewThread(t, b.store, "anna", "")
	for i, step := range []struct {
		title string
		by    persistence.TitleBy
		want  bool
	}{
		{"words", persistence.TitleByWords, true},
		{"later words", persistence.TitleByWords, false},
		{"model", persistence.TitleByModel, true},
		{"again", persistence.TitleByModel, false},
		{"user", persistence.TitleByUser, true},
		{"late", persistence.TitleByModel, false},
		{"", persistence.TitleByUser, true}, // the user no longer wants one
		{"anew", persistence.TitleByModel, true},
	} {
		before, err := b.store.Thread(t.Context(), key)
		must(t, err)
		got := step.by == persistence.TitleByUser
		if got {
			_, err = b.store.RenameThread(t.Context(), key, step.title)
		} else {
			got, err = b.store.SuggestTitle(t.Context(), key, step.title, step.by)
		}
		after, readErr := b.store.Thread(t.Context(), key)
		if err != nil || readErr != nil || got != step.want || (after.Title == step.title) != step.want || reflect.DeepEqual(after, before) == step.want {
			t.Errorf("step %d: %v, %v, %v; the title is %q by %q", i, got, err, readErr, after.Title, after.TitleBy)
		}
	}
	if changed, err := b.store.SuggestTitle(t.Context(), b.key, "x", persistence.TitleByModel); changed || err != nil {
		t.Errorf("SuggestTitle() over the title that the thread was made with = %v, %v", changed, err)
	}
	if changed, err := b.store.SuggestTitle(t.Context(), thread.Key{Owner: "bert", Thread: key.Thread}, "x", persistence.TitleByModel); changed || err != nil {
		t.Errorf("SuggestTitle() of a stranger = %v, %v", changed, err)
	}
	wantErr(t, "SuggestTitle() by a user", errOf(b.store.SuggestTitle(t.Context(), key, "x", persistence.TitleByUser)), persistence.ErrInvalid)
}

func (s suite) searchMessages(t *testing.T) {
	b := s.setup(t)
	b.append(t, text(thread.RoleUser, "my own ducks and geese"))
	other := bundle{url: b.url, store: b.store, key: newThread(t, b.store, "anna")}
	other.append(t, text(thread.RoleUser, "We keep Ducks."))
	other.append(t, text(thread.RoleAssistant, "DUCKS and geese 100%"))
	other.append(t, text(thread.RoleUser, "ducks again"))
	other.append(t, text(thread.RoleSystem, "ducks and geese by order"))
	other.append(t, text(thread.RoleUser, "Herons, herons\u00a0HERONS\n\tand herons"))
	stranger := bundle{url: b.url, store: b.store, key: newThread(t, b.store, "bert")}
	stranger.append(t, text(thread.RoleUser, "ducks and geese of bert"))
	for _, c := range []struct {
		words []string
		limit int
		want  []string
	}{
		{[]string{"Ducks", "geese"}, 10, []string{"DUCKS and geese 100%", "ducks again", "We keep Ducks."}},
		{[]string{"ducks", "geese"}, 1, []string{"DUCKS and geese 100%"}},
		{[]string{"%", "_"}, 10, []string{"DUCKS and geese 100%"}},
		{[]string{"erons"}, 10, []string{"Herons, herons\u00a0HERONS\n\tand herons"}},
		{[]string{"'\"\x00\xff", "swans"}, 10, nil},
		{nil, 10, nil},
	} {
		found, err := b.store.SearchMessages(t.Context(), b.key, c.words, c.limit)
		var got []string
		for _, f := range found {
			got = append(got, f.Text)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("SearchMessages(%q) = %q, %v, want %q", c.words, got, err, c.want)
		}
	}
	if rows := Rows(t, b.url, "SELECT search_text FROM messages WHERE text LIKE 'Herons%'"); rows[0][0] != "herons, herons and" {
		t.Errorf("the search looks at %q, not at every word once", rows[0][0])
	}
	wantErr(t, "SearchMessages() without a limit", errOf(b.store.SearchMessages(t.Context(), b.key, []string{"x"}, 0)), persistence.ErrInvalid)
}

// supersededTurn: what a turn could not save of its end is closed by the next one.
func (s suite) supersededTurn(t *testing.T) {
	b := s.setup(t)
	claim := func(id string, more func(*persistence.Batch) error) {
		t.Helper()
		err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
			if err := w.ClaimTurn(id); err != nil {
				return err
			}
			return errors.Join(more(w), w.Apply(persistence.PutTurn{ID: id}))
		})
		must(t, err)
	}
	open := func(call, words string) thread.Message {
		m := text(thread.RoleAssistant, words)
		m.Metadata.Status, m.Metadata.CallID = thread.StatusInProgress, call
		return m
	}
	claim("1", func(w *persistence.Batch) error {
		_, err := w.AppendMessage(open("", "half an answer"))
		_, callErr := w.AppendMessage(open("c", "of a call"))
		return errors.Join(err, callErr,
			w.Records.SaveToolCall(thread.ToolCall{ID: "t", Name: "x", Status: thread.ToolCallRunning}),
			w.Records.SaveToolCall(thread.ToolCall{ID: "c", CallID: "c", Name: "y", Status: thread.ToolCallRunning}),
			w.SaveApproval(thread.Approval{ID: "t", ToolCallID: "fc", Nonce: "n", ExpiresAt: time.Now().Add(time.Hour)}),
			w.Records.SaveResponse(records.Response{ID: "r", Status: "in_progress"}))
	})
	claim("2", func(*persistence.Batch) error { return nil })
	var states []string
	for _, m := range b.all(t) {
		states = append(states, string(m.Metadata.Status)+":"+m.Text())
	}
	if got, want := strings.Join(states, ", "), "interrupted:half an answer, in_progress:of a call"; got != want {
		t.Errorf("the thread is %s, want %s", got, want)
	}
	wantRows(t, b.url, "SELECT id, status, error FROM tool_calls ORDER BY id", "c running ", "t failed process ended")
	wantRows(t, b.url, "SELECT outcome FROM approvals", "process_ended")
	wantRows(t, b.url, "SELECT status FROM responses", "failed")
}

// liveCallInBatch reads a thread's call in a transaction, while another one that has read it begins a call.
func (s suite) liveCallInBatch(t *testing.T) {
	b := s.setup(t)
	found := make(chan bool, 1)
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		if _, ok, err := w.Records.LiveCall(); ok || err != nil {
			t.Errorf("LiveCall() = %t, %v, want none", ok, err)
		}
		go func() {
			var ok bool
			err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) (err error) {
				_, ok, err = w.Records.LiveCall()
				return err
			})
			if err != nil {
				t.Errorf("LiveCall() = %v", err)
			}
			found <- ok
		}()
		return w.Records.SaveCall(records.Call{ID: "call", StartedAt: time.Now()})
	})
	must(t, err)
	if !testkit.Take(t, "what is found", found) {
		t.Error("a transaction did not see the call that the one before it had begun")
	}
}

// holdTurn asks whether a turn has its thread, and was asked to stop.
func holdTurn(t *testing.T, s *persistence.Store, key thread.Key, id string) (stop bool, err error) {
	turn, err := s.RunningTurn(t.Context(), key)
	if err == nil && turn.ID != id {
		err = persistence.ErrNotFound
	}
	return turn.StopAsked, err
}

func saveTextSession(t *testing.T, s *persistence.Store, key thread.Key, saved persistence.TextSession) error {
	return s.Batch(t.Context(), key, func(w *persistence.Batch) error { return w.SaveTextSession(saved) })
}
