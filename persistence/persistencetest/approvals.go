package persistencetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// ask opens an approval on a tool call of its own.
func ask(t *testing.T, store *persistence.Store, key thread.Key, id, input string, expires time.Time) thread.Approval {
	t.Helper()
	asked := expires.Add(-time.Hour).Truncate(time.Microsecond)
	a := thread.Approval{
		ID: id, ToolCallID: "call-" + id, Nonce: "nonce-" + id, AskedAt: asked, ExpiresAt: asked.Add(time.Hour),
		Name: "http", Executor: "app", Input: input,
	}
	err := store.Batch(t.Context(), key, func(w *persistence.Batch) error {
		call := thread.ToolCall{
			ID: id, ToolCallID: a.ToolCallID, Name: a.Name, Executor: a.Executor, Input: input, Status: thread.ToolCallRunning, StartedAt: asked,
		}
		return errors.Join(w.Records.SaveToolCall(call), w.SaveApproval(a), w.SaveApproval(a)) // saving it twice changes nothing
	})
	must(t, err)
	return a
}

func readApproval(t *testing.T, store *persistence.Store, key thread.Key, id string) thread.Approval {
	t.Helper()
	a, err := store.Approval(t.Context(), key, id)
	if err != nil {
		t.Fatalf("Approval(%q) = %v", id, err)
	}
	return a
}

func (s suite) approvals(t *testing.T) {
	b := s.setup(t)
	soon := time.Now().Add(time.Hour).UTC()
	yes := ask(t, b.store, b.key, "1", `{"a":1}`, soon)
	no := ask(t, b.store, b.key, "2", `{"broken`, soon.Add(time.Second))
	late := ask(t, b.store, b.key, "3", ``, time.Now().Add(-time.Second).UTC())
	open, err := b.store.OpenApprovals(t.Context(), b.key)
	if d := diff([]thread.Approval{yes, no}, open); err != nil || d != "" {
		t.Errorf("OpenApprovals() = %v, differs (-want +got):\n%s", err, d)
	}
	answer := func(key thread.Key, call, nonce string, approved bool) error {
		return b.store.AnswerApproval(t.Context(), key, call, nonce, "anna", approved)
	}
	for what, err := range map[string]error{
		"a wrong nonce":     answer(b.key, yes.ToolCallID, "guess", true),
		"no nonce":          answer(b.key, yes.ToolCallID, "", true),
		"another's nonce":   answer(b.key, yes.ToolCallID, no.Nonce, true),
		"an unknown call":   answer(b.key, "none", yes.Nonce, true),
		"hostile ids":       answer(b.key, "\x00", "\xff", true),
		"a stranger":        answer(thread.Key{Owner: "bert", Thread: b.key.Thread}, yes.ToolCallID, yes.Nonce, true),
		"another thread":    answer(newThread(t, b.store, "anna"), yes.ToolCallID, yes.Nonce, true),
		"no thread":         answer(thread.Key{}, yes.ToolCallID, yes.Nonce, true),
		"one that ran out":  answer(b.key, late.ToolCallID, late.Nonce, true),
		"a no after a yes":  errors.Join(answer(b.key, yes.ToolCallID, yes.Nonce, true), answer(b.key, yes.ToolCallID, yes.Nonce, false)),
		"a yes after a no":  errors.Join(answer(b.key, no.ToolCallID, no.Nonce, false), answer(b.key, no.ToolCallID, no.Nonce, true)),
		"a yes after a yes": answer(b.key, yes.ToolCallID, yes.Nonce, true),
	} {
		wantErr(t, "AnswerApproval() of "+what, err, persistence.ErrNotFound)
	}
	closeAll := func(w *persistence.Batch) error {
		return errors.Join(w.CloseApproval(yes.ID, thread.ApprovalInterrupted), w.CloseApproval(late.ID, thread.ApprovalTimeout),
			w.CloseApproval("none", thread.ApprovalTimeout))
	}
	must(t, b.store.Batch(t.Context(), b.key, closeAll))
	for _, c := range []struct {
		id, by string
		want   thread.ApprovalOutcome
	}{{yes.ID, "anna", thread.ApprovalApproved}, {no.ID, "anna", thread.ApprovalDenied}, {late.ID, "", thread.ApprovalTimeout}} {
		if a := readApproval(t, b.store, b.key, c.id); a.Outcome != c.want || a.AnsweredBy != c.by || a.AnsweredAt == nil {
			t.Errorf("Approval(%s) = %+v, want %s by %q", c.id, a, c.want, c.by)
		}
	}
	wantRows(t, b.url, "SELECT c.name, a.outcome, a.answered_by FROM approvals a JOIN tool_calls c ON c.id = a.id ORDER BY a.id",
		"http approved anna", "http denied anna", "http timeout ")
	must(t, b.store.DeleteThread(t.Context(), b.key))
	wantRows(t, b.url, "SELECT id FROM approvals")
}

func (s suite) refusedApprovals(t *testing.T) {
	b := s.setup(t)
	a := ask(t, b.store, b.key, "1", "{}", time.Now().Add(time.Hour).UTC())
	save := func(key thread.Key, change func(*thread.Approval)) error {
		return b.store.Batch(t.Context(), key, func(w *persistence.Batch) error {
			other := a
			change(&other)
			return w.SaveApproval(other)
		})
	}
	for what, change := range map[string]func(*thread.Approval){
		"an empty id":    func(a *thread.Approval) { a.ID = "" },
		"no nonce":       func(a *thread.Approval) { a.Nonce = "" },
		"no call":        func(a *thread.Approval) { a.ToolCallID = "\x00" },
		"a long nonce":   func(a *thread.Approval) { a.Nonce = strings.Repeat("x", 501) },
		"no such record": func(a *thread.Approval) { a.ID = "none" },
	} {
		if err := save(b.key, change); err == nil {
			t.Errorf("SaveApproval() with %s = nil", what)
		}
	}
	stranger := thread.Key{Owner: "bert", Thread: b.key.Thread}
	wantErr(t, "SaveApproval() of a stranger", save(stranger, func(a *thread.Approval) { a.ID = "2" }), persistence.ErrNotFound)
	for _, key := range []thread.Key{stranger, newThread(t, b.store, "anna")} {
		wantErr(t, "Approval() of a stranger", errOf(b.store.Approval(t.Context(), key, a.ID)), persistence.ErrNotFound)
		err := b.store.Batch(t.Context(), key, func(w *persistence.Batch) error { return w.CloseApproval(a.ID, thread.ApprovalDenied) })
		if err != nil {
			t.Errorf("CloseApproval() of a stranger = %v", err)
		}
		if open, err := b.store.OpenApprovals(t.Context(), key); len(open) != 0 || err != nil && !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("OpenApprovals() of a stranger = %v, %v", open, err)
		}
	}
	if got := readApproval(t, b.store, b.key, a.ID); got.Outcome != thread.ApprovalOpen {
		t.Errorf("strangers have closed it: %+v", got)
	}
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.CloseApproval(a.ID, thread.ApprovalOpen) })
	wantErr(t, "CloseApproval() with nothing", err, persistence.ErrInvalid)
}

// settledApprovals: what the asker has acted on stands, and the tools of calls ask the
// thread's watchers, too.
func (s suite) settledApprovals(t *testing.T) {
	b := s.setup(t)
	soon := time.Now().Add(time.Hour).UTC()
	a := ask(t, b.store, b.key, "1", "{}", soon)
	settle := func(key thread.Key, a thread.Approval, changes ...persistence.Change) {
		t.Helper()
		applied, err := Apply(t.Context(), b.store, key, append(changes, persistence.PutApproval{Approval: a}))
		if err != nil || len(applied.Lost) != 0 {
			t.Errorf("Apply() = %+v, %v", applied, err)
		}
	}
	must(t, b.store.AnswerApproval(t.Context(), b.key, a.ToolCallID, a.Nonce, "anna", true))
	settle(b.key, a) // it is not opened again
	if got, err := b.store.Approval(t.Context(), b.key, a.ID); err != nil || got.Outcome != thread.ApprovalApproved || got.AnsweredBy != "anna" {
		t.Errorf("Approval() = %+v, %v", got, err)
	}
	a.Outcome = thread.ApprovalTimeout
	settle(b.key, a)
	settle(b.key, a)
	if got, err := b.store.Approval(t.Context(), b.key, a.ID); err != nil || got.Outcome != thread.ApprovalTimeout || got.AnsweredBy != "" {
		t.Errorf("Approval() = %+v, %v", got, err)
	}
	for what, key := range map[string]thread.Key{"a stranger": {Owner: "bert", Thread: b.key.Thread}, "nobody": {}} {
		wantErr(t, "Approval() of "+what, errOf(b.store.Approval(t.Context(), key, a.ID)), persistence.ErrNotFound)
	}
	wantErr(t, "Approval() of a hostile id", errOf(b.store.Approval(t.Context(), b.key, "\x00")), persistence.ErrNotFound)

	// A call's request is saved together with the records on which it depends.
	asked := time.Now().UTC()
	call := thread.ToolCall{ID: "2", CallID: "call", ToolCallID: "call-2", Name: "http", Executor: "app", Status: thread.ToolCallRunning, StartedAt: asked}
	voice := thread.Approval{ID: "2", ToolCallID: "call-2", Nonce: "n", AskedAt: asked, ExpiresAt: soon}
	settle(b.key, voice, persistence.PutCall{Call: records.Call{ID: "call", Upstream: "openai", StartedAt: asked}}, persistence.PutToolCall{ToolCall: call})
	if open, err := b.store.OpenApprovals(t.Context(), b.key); len(open) != 1 || err != nil {
		t.Errorf("OpenApprovals() = %+v, %v, want the request of the call", open, err)
	}
	must(t, b.store.AnswerApproval(t.Context(), b.key, "call-2", "n", "anna", false))
}

// concurrentAnswers: of many answers from two processes exactly one counts.
func (s suite) concurrentAnswers(t *testing.T) {
	b := s.setup(t)
	other := Open(t, b.url, persistence.Options{})
	a := ask(t, b.store, b.key, "1", "{}", time.Now().Add(time.Hour).UTC())
	var won atomic.Int32
	var running sync.WaitGroup
	for i := range 20 {
		store := b.store
		if i%2 == 0 {
			store = other
		}
		running.Go(func() {
			err := store.AnswerApproval(t.Context(), b.key, a.ToolCallID, a.Nonce, fmt.Sprint(i), i%3 == 0)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, persistence.ErrNotFound) {
				t.Errorf("AnswerApproval() = %v", err)
			}
		})
	}
	running.Wait()
	testkit.Equal(t, won.Load(), 1, "answers count")
}

// watchApprovals: a new watcher gets the open requests after the messages.
func (s suite) watchApprovals(t *testing.T) {
	b := s.setup(t)
	b.append(t, text(thread.RoleUser, "before"))
	soon := time.Now().Add(time.Hour).UTC()
	inputs := []string{`{"a": 1}`, `{"broken`, ``, `{"a":"` + strings.Repeat("é", 8000) + `"}`, strings.Repeat("\x01\"", 40_000), strings.Repeat("[", 300) + strings.Repeat("]", 300)}
	for i, input := range inputs {
		ask(t, b.store, b.key, fmt.Sprint(i), input, soon.Add(time.Duration(i)*time.Second))
	}
	ask(t, b.store, b.key, "late", "{}", time.Now().Add(-time.Second).UTC())
	w := startWatch(Within(t), t, b.store, b.key, 0)
	if m := w.message(); m.Text() != "before" {
		t.Errorf("Watch() begins with %q", m.Text())
	}
	for i, want := range []string{`{"a":1}`, `"{\"broken"`, `{}`, `"{\"a\":\"ééé`, `"\u0001\"`, `"[[[`} {
		e := w.event()
		var d struct {
			ToolCallID string `json:"tool_call_id"`
			Name       string
			Executor   string
			Input      json.RawMessage
			Clipped    bool `json:"input_clipped"`
			Nonce      string
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || e.Type != persistence.EventApprovalRequired || e.Seq != 0 {
			t.Fatalf("event %s %d %.100s: %v", e.Type, e.Seq, e.Data, err)
		}
		if d.ToolCallID != fmt.Sprint("call-", i) || d.Nonce != fmt.Sprint("nonce-", i) || d.Name != "http" || d.Executor != "app" ||
			!strings.HasPrefix(strings.ReplaceAll(string(d.Input), " ", ""), want) || d.Clipped != (len(inputs[i]) > 6000) || len(e.Data) > 6000 {
			t.Errorf("event %d of %d bytes: %.300s", i, len(e.Data), e.Data)
		}
	}
	b.append(t, text(thread.RoleUser, "after"))
	if m := w.message(); m.Text() != "after" {
		t.Errorf("Watch() goes on with %q", m.Text())
	}
	// A question that does not fit into the buffer of a slow watcher comes later.
	for range 300 {
		b.store.Publish(t.Context(), b.key, persistence.Event{Type: "draft"})
	}
	ask(t, b.store, b.key, "slow", "{}", time.Now().Add(time.Hour).UTC())
	e := w.event()
	for e.Type == "draft" {
		e = w.event()
	}
	if e.Type != persistence.EventApprovalRequired || !strings.Contains(string(e.Data), `"nonce-slow"`) {
		t.Errorf("after what was lost comes %s %s", e.Type, e.Data)
	}

	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	for e, err := range b.store.Watch(b.key).Events(leaving, -1) {
		if err != nil || e.Type != persistence.EventApprovalRequired {
			t.Fatalf("Watch() gives %s, %v", e.Type, err)
		}
		leave()
		break // what fails from now on must not be told to the loop that has ended, which panics
	}
}

func (s suite) recoverApprovals(t *testing.T) {
	b := s.serving(t)
	soon := time.Now().Add(time.Hour).UTC()
	ask(t, b.store, b.key, "1", "{}", soon)
	answered := ask(t, b.store, b.key, "2", "{}", soon)
	must(t, b.store.AnswerApproval(t.Context(), b.key, answered.ToolCallID, answered.Nonce, "anna", true))
	b = b.restart(t)
	ask(t, b.store, newThread(t, b.store, "anna"), "3", "{}", soon)
	_, err := b.store.Recover(t.Context())
	must(t, err)
	wantRows(t, b.url, "SELECT a.id, a.outcome, c.status FROM approvals a JOIN tool_calls c ON c.id = a.id ORDER BY a.id",
		"1 process_ended failed", "2 approved failed", "3  running")
	if open, err := b.store.OpenApprovals(t.Context(), b.key); len(open) != 0 || err != nil {
		t.Errorf("OpenApprovals() = %v, %v", open, err)
	}
}
