package spool

import (
	"fmt"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// A process that was taken for dead saves what its calls said meanwhile once it has
// started again. What a neighbour has closed stays closed, the neighbour's next call on
// the thread goes on, and from then on the process saves under its new id.
func TestFenced(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), persistencetest.PostgresURL(t)
	a, b := persistencetest.Open(t, url, persistence.Options{Instance: "a"}), persistencetest.Open(t, url, persistence.Options{Instance: "b"})
	for _, s := range []*persistence.Store{a, b} {
		must(t, s.Serve(ctx))
	}
	key := persistencetest.NewThread(t, a, "anna", "")
	pending := make(chan int, 100)
	attempts := make(chan Attempt, 100)
	w, err := New(Config{Store: a, Dir: t.TempDir(), Delayed: func(n int) { pending <- n }, Observe: func(a Attempt) { attempts <- a }})
	must(t, err)
	persistencetest.Start(t, w.Run)
	commit := func(inFile bool, changes ...persistence.Change) {
		t.Helper()
		must(t, w.Save(ctx, key, changes...))
		if a := <-attempts; a.Err != nil || a.InFile != inFile {
			t.Fatalf("saved: %+v", a)
		}
	}
	answer := func(id, text string) persistence.Change {
		m := thread.Message{ID: id, Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart(text)}}
		m.Metadata.Status = thread.StatusInProgress
		return persistence.PutMessage{Message: m, Place: persistence.Place{How: persistence.PlaceLast}}
	}
	tool := persistence.PutToolCall{ToolCall: thread.ToolCall{ID: "tool", MessageID: "m", ToolCallID: "x", Name: "x", Executor: "app", Status: thread.ToolCallRunning}}
	commit(false, persistence.PutCall{Call: records.Call{ID: "call"}}, answer("m", "half an"))

	// The neighbour ends a, as if it had heard nothing from it.
	if rows := persistencetest.Rows(t, url, "UPDATE instances SET ended_at = beat_at WHERE id = 'a' RETURNING id"); len(rows) != 1 {
		t.Fatalf("%d instances were ended", len(rows))
	}
	if calls, err := b.Recover(ctx); err != nil || len(calls) != 1 {
		t.Fatalf("Recover() = %v, %v", calls, err)
	}
	must(t, b.Records.SaveCall(ctx, key, records.Call{ID: "next"}))
	commit(true, persistence.PutCall{Call: records.Call{ID: "call", Turns: 7}}, answer("m", "half an answer"), tool)
	commit(true, persistence.PutCall{Call: records.Call{ID: "never saved"}})
	commit(true, put("typed", "typed", persistence.PlaceLast))
	must(t, a.Cluster.Rejoin(ctx))
	commit(true, answer("of the new one", "goes on")) // the file is written first
	for n := range pending {
		if n == 0 {
			break
		}
	}
	if _, err := b.Recover(ctx); err != nil {
		t.Fatalf("Recover() = %v", err)
	}
	for query, want := range map[string][]string{
		"SELECT id || ' ' || CASE WHEN ended_at IS NULL THEN 'lives' ELSE end_reason END FROM calls ORDER BY id": {"call process_ended", "next lives"},
		"SELECT id || ' ' || status || ' ' || text FROM messages ORDER BY seq": {
			"m interrupted half an answer", "typed completed typed", "of the new one in_progress goes on",
		},
		"SELECT id || ' ' || status FROM tool_calls": {"tool failed"},
	} {
		var got []string
		for _, row := range persistencetest.Rows(t, url, query) {
			got = append(got, fmt.Sprint(row[0]))
		}
		testkit.Equal(t, got, want, "%s", query)
	}
}
