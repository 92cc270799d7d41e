package persistencetest

import (
	"encoding/json"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// putText is a message with an id and a text.
func putText(id, words string, at persistence.Place) persistence.PutMessage {
	m := text(thread.RoleUser, words)
	m.ID = id
	m.Metadata.CreatedAt = start
	return persistence.PutMessage{Message: m, Place: at}
}

var last = persistence.Place{How: persistence.PlaceLast}

func after(id string) persistence.Place {
	return persistence.Place{How: persistence.PlaceAfter, After: id}
}

// throughJSON encodes changes and decodes them again, as the spool does.
func throughJSON(t *testing.T, changes ...persistence.Change) []persistence.Change {
	t.Helper()
	data, err := json.Marshal(persistence.Changes(changes))
	must(t, err)
	var read persistence.Changes
	must(t, json.Unmarshal(data, &read))
	return read
}

func (s suite) changes(t *testing.T) {
	b := s.setup(t)
	tool := thread.ToolPart("x")
	tool.ToolCallID, tool.State, tool.Raw = "fc", thread.ToolInputAvailable, json.RawMessage(`{"kept":[1]}`)
	answer := thread.Message{ID: "m2", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("two"), tool}}
	answer.Metadata = thread.Metadata{
		Source: thread.SourceVoice, Status: thread.StatusInterrupted, CreatedAt: start, HeardText: new("tw"), AudioEndMS: new(int64(7)),
		Extra: map[string]json.RawMessage{"notice": json.RawMessage("true")}, LatencyMS: map[string]int64{"answer": 5},
	}
	changes := throughJSON(t,
		putText("m1", "one", last),
		persistence.PutCall{Call: records.Call{ID: "c", Upstream: "openai", StartedAt: start}},
		persistence.PutLeg{Leg: records.Leg{CallID: "c", Generation: 1, Upstream: "openai", StartedAt: start}},
		persistence.PutMessage{Message: answer, Place: last},
		persistence.PutToolCall{ToolCall: thread.ToolCall{ID: "t", Name: "x", Status: thread.ToolCallRunning, Input: "{broken", StartedAt: start}},
		persistence.PutApproval{Approval: thread.Approval{ID: "t", ToolCallID: "fc", Nonce: "n", AskedAt: start, ExpiresAt: time.Now().Add(time.Hour)}},
		persistence.PutResponse{Response: records.Response{ID: "r", CallID: "c", Status: "completed", RawUsage: json.RawMessage(`{"a":1}`), CreatedAt: start}},
		putText("m3", "between", after("m1")),
		putText("m0", "first", after("")),
		putText("m4", "lost its place", after("gone")),
		putText("m1", "one!", persistence.Place{}),
		putText("m5", "was never there", persistence.Place{}),
		persistence.PutApproval{Approval: thread.Approval{ID: "t", Outcome: thread.ApprovalTimeout}},
	)
	for range 2 { // the second time changes nothing
		applied, err := Apply(t.Context(), b.store, b.key, changes)
		if err != nil || len(applied.Lost) != 0 || len(applied.Messages) != 7 {
			t.Fatalf("Apply() = %+v, %v", applied, err)
		}
		all := b.all(t)
		if got, want := words(all), "first one! between two lost its place was never there"; got != want {
			t.Errorf("the thread is %q, want %q", got, want)
		}
		got := all[3]
		got.Seq, got.Revision, got.Metadata.Seq = 0, 0, 0
		want := answer
		want.Parts[1].ToolName = "x"
		got.Parts[1].Raw, want.Parts[1].Raw = nil, nil
		testkit.Equal(t, diff(want, got), "", "the answer differs")
		wantRows(t, b.url, "SELECT name, status, input FROM tool_calls", "x running {broken")
		wantRows(t, b.url, "SELECT outcome, nonce FROM approvals", "timeout n")
		wantRows(t, b.url, "SELECT status FROM responses", "completed")
		wantRows(t, b.url, "SELECT generation FROM upstream_legs", "1")
	}
}

// lostChanges: a change that can never be saved affects no other one, and while nothing can
// be saved, nothing counts as lost.
func (s suite) lostChanges(t *testing.T) {
	b := s.setup(t)
	other := newThread(t, b.store, "bert")
	must(t, errOf(Apply(t.Context(), b.store, other, []persistence.Change{putText("taken", "bert's", last)})))
	gone := thread.Key{Owner: "anna", Thread: "gone"}
	applied, err := b.store.ApplyAll(t.Context(), []persistence.ThreadChanges{
		{Key: gone, Changes: []persistence.Change{putText("g", "nobody's", last)}},
		{Key: b.key, Changes: []persistence.Change{
			putText("m1", "one", last), putText("taken", "anna's", last), putText("taken", "anna's", persistence.Place{}), putText("", "no id", last),
			putText("m2", "two", last),
		}},
		{Key: other, Changes: []persistence.Change{putText("b", "more", last)}},
		{Key: b.key, Changes: []persistence.Change{putText("m3", "three", last)}, Instance: "dead"},
	})
	if err != nil || len(applied) != 4 {
		t.Fatalf("ApplyAll() = %+v, %v", applied, err)
	}
	for i, want := range []int{1, 3, 0, 0} {
		testkit.Equal(t, len(applied[i].Lost), want, "group %d has lost changes: %v", i, applied[i].Lost)
	}
	wantErr(t, "a thread that is gone", applied[0].Lost[0].Err, persistence.ErrNotFound)
	wantErr(t, "an id that is taken", applied[1].Lost[0].Err, persistence.ErrNotFound)
	wantErr(t, "no id", applied[1].Lost[2].Err, persistence.ErrInvalid)
	testkit.Equal(t, words(b.all(t)), "one two three", "the thread")
	wantRows(t, b.url, "SELECT text FROM messages WHERE instance = 'dead'", "three")
	wantRows(t, b.url, "SELECT text FROM messages WHERE id = 'taken'", "bert's")
	must(t, b.store.Close())
	if applied, err := Apply(t.Context(), b.store, b.key, []persistence.Change{putText("m4", "four", last)}); err == nil {
		t.Errorf("Apply() of a closed store = %+v", applied)
	}
}
