package bridge_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// TestSlowDatabase calls again, twice, on a thread whose last call waits for a slow
// database. No call is refused, the model knows what was said, and once everything is
// saved the thread is in order. A queued text waits until then.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testSlowDatabase)
}

func testSlowDatabase(t *testing.T) {
	t.Helper()
	slow := &slowStore{}
	b := newBench(t, sqlite(t), benchConfig{slow: slow})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	words := []string{"The first words.", "The second words.", "The third words."}
	slow.slow.Store(true)
	for i, text := range words {
		c.say(text)
		c.next(realtime.TypeOutputBufferStopped)
		m := thread.Message{ID: "queued", Parts: []thread.Part{thread.TextPart("I wait.")}}
		if _, busy := b.calls.Call(c.key()); !busy {
			t.Error("the queue is not told to wait")
		}
		if _, err := b.calls.Say(b.ctx, c.key(), m, "queued"); !errors.Is(err, persistence.ErrBusy) {
			t.Errorf("Say() = %v", err)
		}
		if i == len(words)-1 {
			break
		}
		b.hangUp(c)
		c = b.dial(bridge.Start{ThreadID: c.ThreadID})
		var ready struct{ Replayed int }
		if c.decode(c.next("bridge.ready"), &ready); ready.Replayed != 2*(i+1) {
			t.Errorf("%d messages replayed to call %d", ready.Replayed, i+2)
		}
	}
	slow.slow.Store(false)
	c.next("bridge.storage.recovered")
	if _, busy := b.calls.Call(c.key()); busy {
		t.Error("the queue still waits")
	}
	b.hangUp(c)
	var got []string
	for _, m := range b.messages(c.key()) {
		if m.Role == thread.RoleUser {
			got = append(got, m.Text())
		}
	}
	if !slices.Equal(got, words) || len(b.messages(c.key())) != 2*len(words) {
		t.Errorf("thread:\n%s", b.script(c.key()))
	}
	var received []string
	for _, r := range b.session(3).Received() {
		if item, err := realtime.DecodeItem(r.Event.Item); err == nil && item.Role == "user" {
			received = append(received, item.Text())
		}
	}
	testkit.Equal(t, received, words, "the last model received")
	// Nothing counts as live or unsaved any more.
	again := b.dial(bridge.Start{ThreadID: c.ThreadID})
	again.next("bridge.ready")
	b.hangUp(again)
}

// TestTypedAfterOutage has a text typed between two calls, elsewhere, before the database has the end of the first one:
// the second call knows it, and stands behind it.
func TestTypedAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTypedAfterOutage)
}

func testTypedAfterOutage(t *testing.T) {
	t.Helper()
	slow := &slowStore{}
	b := newBench(t, sqlite(t), benchConfig{slow: slow})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	slow.slow.Store(true)
	c.say("In the first call.")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	typed := thread.Message{ID: "typed", Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("Between the calls.")}, Metadata: thread.Metadata{
		Source: thread.SourceText, Status: thread.StatusCompleted,
	}}
	_, err := persistencetest.AppendMessage(b.ctx, b.store, c.key(), typed)
	must(t, err)
	c = b.dial(bridge.Start{ThreadID: c.ThreadID})
	var ready struct{ Replayed int }
	if c.decode(c.next("bridge.ready"), &ready); ready.Replayed != 3 {
		t.Errorf("%d messages replayed", ready.Replayed)
	}
	c.say("In the second call.")
	c.next(realtime.TypeOutputBufferStopped)
	slow.slow.Store(false)
	c.next("bridge.storage.recovered")
	b.hangUp(c)
	var got []string
	for _, m := range b.messages(c.key()) {
		if m.Role == thread.RoleUser {
			got = append(got, m.Text())
		}
	}
	testkit.Equal(t, got, []string{"In the first call.", "Between the calls.", "In the second call."}, "thread: %s", b.script(c.key()))
}

// TestRenewalWithoutDatabase has the upstream lose a session while the database takes no changes. The call goes on with
// another one, whose record waits like all others.
func TestRenewalWithoutDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testRenewalWithoutDatabase)
}

func testRenewalWithoutDatabase(t *testing.T) {
	t.Helper()
	url, slow := persistencetest.SQLiteURL(t), &slowStore{}
	b := newBench(t, persistencetest.Open(t, url, persistence.Options{}), benchConfig{slow: slow})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	slow.slow.Store(true) // for what goes through the spool, which would wait for the lock
	unlock := persistencetest.LockSQLite(t, url)
	b.session(1).Drop()
	c.next("bridge.upstream.renewed")
	unlock()
	slow.slow.Store(false)
	c.next("bridge.storage.recovered")
	if legs := persistencetest.Rows(t, url, "SELECT upstream_id FROM upstream_legs"); !slices.ContainsFunc(legs, func(l []string) bool { return l[0] == b.session(2).ID() }) {
		t.Errorf("the new session is not among %+v", legs)
	}
	b.hangUp(c)
}

// TestSlowDatabaseAtSetUp has call set-ups fail while the database is slow: the next one
// is not refused because of them.
func TestSlowDatabaseAtSetUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testSlowDatabaseAtSetUp)
}

func testSlowDatabaseAtSetUp(t *testing.T) {
	t.Helper()
	slow := &slowStore{}
	slow.slow.Store(true)
	b := newBench(t, sqlite(t), benchConfig{slow: slow, simulator: simulator.Config{FaultsFor: func(n int) simulator.Faults {
		return simulator.Faults{BadAnswer: n < 3}
	}}})
	thread, err := b.store.CreateThread(b.ctx, owner, "")
	must(t, err)
	for range 2 {
		if _, err := b.try(bridge.Start{ThreadID: thread.ID}); !isCode(err, bridge.CodeUpstreamUnreachable) {
			t.Errorf("a call with half an answer: %v", err)
		}
	}
	c := b.dial(bridge.Start{ThreadID: thread.ID})
	c.next("bridge.ready")
	slow.slow.Store(false)
	c.say("Good morning")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	testkit.Equal(t, len(b.messages(c.key())), 2, "messages: %s", b.script(c.key()))
}

// TestTextAfterSlowCall has a text turn wait for a thread whose last call waits for a slow
// database: the thread is free once the database has the call.
func TestTextAfterSlowCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTextAfterSlowCall)
}

func testTextAfterSlowCall(t *testing.T) {
	t.Helper()
	slow := &slowStore{}
	b := newBench(t, sqlite(t), benchConfig{slow: slow})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	slow.slow.Store(true)
	c.say("The first words.")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	gone, leave := context.WithCancel(b.ctx)
	leave()
	if err := b.calls.Free(gone, c.key()); !errors.Is(err, context.Canceled) {
		t.Errorf("Free() for a client that has left = %v", err)
	}
	slow.slow.Store(false)
	for busy := true; busy; { // a busy machine may take longer than Free waits
		err := b.calls.Free(b.ctx, c.key())
		if busy = isCode(err, bridge.CodeStorageFull); err != nil && !busy {
			t.Fatalf("Free() = %v", err)
		}
	}
	if _, err := b.store.Records.LiveCall(b.ctx, c.key()); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("LiveCall() of a thread that is free = %v", err)
	}
	if len(b.messages(c.key())) != 2 {
		t.Errorf("thread:\n%s", b.script(c.key()))
	}
}
