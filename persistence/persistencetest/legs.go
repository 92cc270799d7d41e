package persistencetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// ago is longer ago than any grace period.
var ago = time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)

func saveLegs(t *testing.T, b bundle, legs ...records.Leg) {
	t.Helper()
	for _, l := range legs {
		if l.StartedAt.IsZero() {
			l.StartedAt = ago
		}
		if err := saveLeg(t.Context(), b.store, b.key, l); err != nil {
			t.Fatalf("SaveLeg(%+v) = %v", l, err)
		}
	}
}

// wantLegs asks for the legs to hang up and compares their upstream ids and the
// number of attempts.
func wantLegs(t *testing.T, b bundle, want ...string) {
	t.Helper()
	legs, err := b.store.Records.LegsToHangUp(t.Context(), "openai", 10)
	must(t, err)
	got := make([]string, 0, len(legs))
	for _, l := range legs {
		got = append(got, fmt.Sprintf("%s:%d", l.UpstreamID, l.Attempts))
	}
	testkit.Equal(t, diff(want, got), "", "LegsToHangUp() differs")
}

func (s suite) legs(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	first := records.Leg{CallID: "c", Generation: 1, Upstream: "openai", StartedAt: start}
	for range 2 {
		saveLegs(t, b, first)
	}
	first.UpstreamID = "rtc_1"
	second := first
	second.Generation, second.UpstreamID = 2, "rtc_2"
	saveLegs(t, b, second, first)
	first.EndedAt, first.Reason = new(start.Add(time.Minute)), "renewed"
	saveLegs(t, b, first)
	first.HungUpAt = new(start.Add(time.Hour))
	saveLegs(t, b, first)
	late := first
	late.EndedAt, late.HungUpAt, late.Reason = nil, nil, "late" // changes nothing that is known
	saveLegs(t, b, late)
	wantRows(t, b.url, `SELECT call_id, generation, thread_id, upstream, upstream_id, reason, CASE WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END,
		CASE WHEN hung_up_at IS NULL THEN 'running' ELSE 'hung up' END FROM upstream_legs ORDER BY generation`,
		"c 1 "+b.key.Thread+" openai rtc_1 renewed ended hung up", "c 2 "+b.key.Thread+" openai rtc_2  open running")
	other := newThread(t, b.store, "bert")
	wantErr(t, "SaveLeg() of another's", saveLeg(ctx, b.store, other, first), persistence.ErrConflict)
	wantErr(t, "SaveLeg() in a stranger's thread", saveLeg(ctx, b.store, thread.Key{Owner: "bert", Thread: b.key.Thread}, second), persistence.ErrNotFound)
	for what, l := range map[string]records.Leg{
		"no call":       {Generation: 1},
		"no generation": {CallID: "c"},
		"a long id":     {CallID: "c", Generation: 1, UpstreamID: strings.Repeat("x", thread.MaxIDBytes+1)},
	} {
		wantErr(t, "SaveLeg() with "+what, saveLeg(ctx, b.store, b.key, l), persistence.ErrInvalid)
	}
	bad := records.Leg{CallID: "d", Generation: 1, Upstream: "a\x00\xff", UpstreamID: "\x00'", Reason: "\xff\""}
	saveLegs(t, b, bad)
	wantRows(t, b.url, "SELECT upstream, upstream_id, reason FROM upstream_legs WHERE call_id = 'd'", "a\ufffd ' \ufffd\"")
}

// hangUp: only legs that have ended and were not hung up are handed out, each to one process
// at a time, and again until it is hung up.
func (s suite) hangUp(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	leg := func(call string, generation int64, ended, hungUp *time.Time) records.Leg {
		return records.Leg{
			CallID: call, Generation: generation, Upstream: "openai", UpstreamID: fmt.Sprint(call, generation), EndedAt: ended, HungUpAt: hungUp,
		}
	}
	must(t, b.store.Records.SaveCall(ctx, b.key, records.Call{ID: "old", EndedAt: &ago}))
	must(t, b.store.Records.SaveCall(ctx, b.key, records.Call{ID: "live"}))
	wantLegs(t, b)
	unknown := leg("old", 4, &ago, nil)
	unknown.UpstreamID = ""
	foreign := leg("old", 5, &ago, nil)
	foreign.Upstream = "other"
	saveLegs(t, b,
		leg("live", 1, &ago, nil),                           // it has ended, but its call has not hung it up
		leg("live", 2, new(time.Now().Add(time.Hour)), nil), // its call has time to hang it up, however slow this test is
		leg("live", 3, nil, nil),
		leg("old", 1, &ago, &ago),
		leg("old", 2, nil, nil), // the end of its call was saved, but not its own
		unknown, foreign)
	wantLegs(t, b, "live1:1", "old2:1")
	wantRows(t, b.url, "SELECT count(*) FROM upstream_legs WHERE next_try_at IS NOT NULL", "2") // somebody is working on it
	db := rawDB(t, b.url)
	for attempt := 2; attempt < 5; attempt++ {
		if _, err := db.ExecContext(ctx, "UPDATE upstream_legs SET next_try_at = started_at WHERE next_try_at IS NOT NULL"); err != nil {
			t.Fatal(err)
		}
		wantLegs(t, b, fmt.Sprintf("live1:%d", attempt), fmt.Sprintf("old2:%d", attempt))
	}
	must(t, b.store.Records.LegHungUp(ctx, "live", 1))
	must(t, b.store.Records.LegHungUp(ctx, "nothing", 1))
	wantErr(t, "LegHungUp() of no id", b.store.Records.LegHungUp(ctx, "", 1), persistence.ErrNotFound)
	if _, err := db.ExecContext(ctx, "UPDATE upstream_legs SET next_try_at = started_at WHERE next_try_at IS NOT NULL"); err != nil {
		t.Fatal(err)
	}
	// When many ask at once, each leg is handed to one of them.
	var mu sync.Mutex
	var got []string
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			legs, err := b.store.Records.LegsToHangUp(ctx, "openai", 10)
			if err != nil {
				t.Errorf("LegsToHangUp() = %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range legs {
				got = append(got, l.UpstreamID)
			}
		})
	}
	asking.Wait()
	testkit.Equal(t, got, []string{"old2"}, "LegsToHangUp() of eight gives")
	wantErr(t, "LegsToHangUp() of none", errOf(b.store.Records.LegsToHangUp(ctx, "openai", 0)), persistence.ErrInvalid)
}

// hangUpDeleted: deleting a thread does not leave a session running.
func (s suite) hangUpDeleted(t *testing.T) {
	b := s.setup(t)
	saveLegs(t, b,
		records.Leg{CallID: "c", Generation: 1, Upstream: "openai", UpstreamID: "done", EndedAt: &ago, HungUpAt: &ago},
		records.Leg{CallID: "c", Generation: 2, Upstream: "openai", UpstreamID: "open"})
	must(t, b.store.DeleteThread(t.Context(), b.key))
	wantLegs(t, b, "open:1")
	must(t, b.store.Records.LegHungUp(t.Context(), "c", 2))
	wantRows(t, b.url, "SELECT * FROM upstream_legs")

	// Nor a row, whenever the end comes.
	b.key = newThread(t, b.store, "anna")
	saveLegs(t, b,
		records.Leg{CallID: "d", Generation: 1, Upstream: "openai", UpstreamID: "moment"},
		records.Leg{CallID: "d", Generation: 2, Upstream: "openai", UpstreamID: "meanwhile"})
	Rows(t, b.url, "UPDATE threads SET owner = ''") // not erased yet
	must(t, b.store.Records.LegHungUp(t.Context(), "d", 2))
	wantRows(t, b.url, "SELECT upstream_id FROM upstream_legs", "moment")
	Rows(t, b.url, "UPDATE upstream_legs SET hung_up_at = started_at")  // by a write that had begun before
	if _, err := b.store.EnsureThread(t.Context(), b.key); err != nil { // erases the deleted one
		t.Errorf("EnsureThread() = %v", err)
	}
	wantRows(t, b.url, "SELECT * FROM upstream_legs")
}

// recoverLegs: when a process died during a renewal, both sessions are hung up.
func (s suite) recoverLegs(t *testing.T) {
	b := s.serving(t)
	must(t, b.store.Records.SaveCall(t.Context(), b.key, records.Call{ID: "c"}))
	at := time.Now()
	saveLegs(t, b,
		records.Leg{CallID: "c", Generation: 1, Upstream: "openai", UpstreamID: "one", StartedAt: at},
		records.Leg{CallID: "c", Generation: 2, Upstream: "openai", UpstreamID: "two", StartedAt: at.Add(time.Second)})
	b = b.restart(t)
	wantLegs(t, b)
	if calls, err := b.store.Recover(t.Context()); err != nil || len(calls) != 1 {
		t.Errorf("Recover() = %v, %v, want one call", calls, err)
	}
	wantLegs(t, b, "one:1", "two:1")
	wantRows(t, b.url, "SELECT reason FROM upstream_legs WHERE ended_at IS NOT NULL", "process_ended", "process_ended")
	if calls, err := b.store.Recover(t.Context()); err != nil || len(calls) != 0 {
		t.Errorf("Recover() again = %v, %v", calls, err)
	}
	wantRows(t, b.url, "SELECT attempts FROM upstream_legs", "1", "1") // the pause continues
}

func saveLeg(ctx context.Context, store *persistence.Store, key thread.Key, l records.Leg) error {
	return store.Batch(ctx, key, func(b *persistence.Batch) error { return b.Records.SaveLeg(l) })
}
