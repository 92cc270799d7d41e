package bridge_test

import (
	"testing"
	"testing/synctest"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/realtime"
)

// TestOwnersLimit sets up one call more than its owner may have: nothing of it is left. A call that
// has ended makes room, also while its end waits for a slow database.
func TestOwnersLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testOwnersLimit)
}

func testOwnersLimit(t *testing.T) {
	t.Helper()
	slow := &slowStore{}
	b := newBench(t, sqlite(t), benchConfig{slow: slow})
	const limit = 2
	first, second := b.dial(bridge.Start{OwnerCalls: limit}), b.dial(bridge.Start{OwnerCalls: limit})
	first.next("bridge.ready")
	second.next("bridge.ready")
	tooMany := func() {
		t.Helper()
		if _, err := b.try(bridge.Start{OwnerCalls: limit}); !isCode(err, bridge.CodeTooManyCalls) {
			t.Errorf("a call too many: %v", err)
		}
	}
	tooMany()
	if _, err := b.try(bridge.Start{Calls: limit}); !isCode(err, bridge.CodeTooManyCalls) {
		t.Errorf("a call too many of all: %v", err)
	}
	if threads, _, err := b.store.Threads(b.ctx, owner, persistence.ThreadFilter{}); err != nil || len(threads) != limit {
		t.Errorf("%d threads, %v", len(threads), err)
	}
	slow.slow.Store(true)
	first.say("The first words.")
	first.next(realtime.TypeOutputBufferStopped)
	b.hangUp(first)
	third := b.dial(bridge.Start{OwnerCalls: limit})
	third.next("bridge.ready")
	tooMany()
	slow.slow.Store(false)
	b.hangUp(second)
	b.hangUp(third)
}
