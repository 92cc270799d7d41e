package bridge_test

import (
	"testing"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
)

func TestTypedIntoCall(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		b := newBench(t, open(t), benchConfig{})
		c := b.dial(bridge.Start{})
		c.next("bridge.ready")
		c.say("good morning")
		c.next(realtime.TypeOutputBufferStopped)
		c.waitHeard(50)
		if err := b.calls.Hangup(b.ctx, owner, c.CallID); err != nil {
			t.Fatal(err)
		}
		if got := c.ended(); got != bridge.EndHangup {
			t.Errorf("ended because of %s", got)
		}
		want := "user text completed: good morning\nassistant voice completed: Good to see you again. What shall we look at today?\n"
		if got := b.script(c.key()); got != want {
			t.Errorf("thread:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestSpokenTurn(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		b := newBench(t, open(t), benchConfig{})
		c := b.dial(bridge.Start{})
		c.next("bridge.ready")
		c.speak()
		c.next(realtime.TypeOutputBufferStopped)
		c.leave()
		t.Log(b.script(c.key()))
	})
}
