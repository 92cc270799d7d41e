package bridge

import (
	"testing"
	"testing/synctest"

	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/thread"
)

// TestStorageDelayed tells the browser that the database is away, and that it is back.
func TestStorageDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, _ := bareCalls()
		b := newBubble(t, func(b *bubble) { calls.byID[b.call.id] = b.call })
		b.ready()
		calls.StorageDelayed(0)
		synctest.Wait()
		if b.browser.has("bridge.storage") {
			t.Error("the browser was told of a delay, though nothing is pending")
		}
		calls.StorageDelayed(7)
		calls.StorageDelayed(0)
		synctest.Wait()
		if !b.browser.has(`{"type":"bridge.storage.delayed","pending":7}`) || !b.browser.has(`{"type":"bridge.storage.recovered"}`) {
			t.Errorf("the browser was told %q", b.browser.sent)
		}
		b.call.post(session.Stop{Reason: EndHangup})
		b.end(EndHangup)
	})
}

// TestStorageRecoversBehind tells a call that is behind with its inputs that the database is back: only later figures
// of what is pending are left out.
func TestStorageRecoversBehind(t *testing.T) {
	t.Parallel()
	calls, _ := bareCalls()
	one := newCall("call-1", thread.Key{Owner: "ada", Thread: "thread-1"}, quiet())
	calls.byID[one.id] = one
	for range maxInbox - 10 {
		one.post(session.Tick{})
	}
	calls.StorageDelayed(7)
	calls.StorageDelayed(0)
	close(one.inbox)
	var told []session.Input
	for in := range one.inbox {
		if in != (session.Tick{}) {
			told = append(told, in)
		}
	}
	if len(told) != 1 || told[0] != (session.StorageDelayed{}) {
		t.Errorf("the call was told %v", told)
	}
}

// TestSavedWhileSetUp saves a message of a thread's last call while the next one is being
// set up and has no session yet.
func TestSavedWhileSetUp(t *testing.T) {
	t.Parallel()
	calls, _ := bareCalls()
	fresh := newCall("call-2", thread.Key{Owner: "ada", Thread: "thread-1"}, quiet())
	testkit.Must(t, calls.reserve(t.Context(), fresh, Start{}))
	calls.Saved(fresh.key, []thread.Message{{ID: "message-1"}})
	calls.release(fresh)
}
