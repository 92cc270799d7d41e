package bridge_test

import (
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// TestInterruptAndForget stops an answer while it is being played, and then makes the
// model forget that there was one.
func TestInterruptAndForget(t *testing.T) {
	t.Parallel()
	pairs(t, testInterruptAndForget)
}

func testInterruptAndForget(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p})
	c := b.dial(bridge.Start{})
	key := c.key()
	if stopped, err := b.calls.Interrupt(b.ctx, key); stopped || err != nil {
		t.Errorf("Interrupt() before a turn = %v, %v", stopped, err)
	}
	c.say("Tell me a long story")
	c.next(realtime.TypeOutputBufferStarted)
	if stopped, err := b.calls.Interrupt(b.ctx, key); !stopped || err != nil {
		t.Errorf("Interrupt() = %v, %v", stopped, err)
	}
	c.next(realtime.TypeOutputBufferCleared)
	b.calls.Forget(key)
	if _, err := b.calls.Say(b.ctx, c.key(), textMessage("", "What did I say before?"), ""); err != nil {
		t.Fatalf("Say() = %v", err)
	}
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	if stopped, err := b.calls.Interrupt(b.ctx, key); stopped || err != nil {
		t.Errorf("Interrupt() after the call = %v, %v", stopped, err)
	}
	b.calls.Forget(key)
	all := b.messages(key)
	if len(all) != 4 {
		t.Fatalf("thread:\n%s", b.script(key))
	}
	if m := all[1]; m.Metadata.Status != thread.StatusInterrupted || m.Metadata.HeardText == nil {
		t.Errorf("the story is %s %q, and none of it was heard", m.Metadata.Status, m.Text())
	}
	if got := all[3].Text(); strings.Contains(got, "story") || all[3].Metadata.Status != thread.StatusCompleted {
		t.Errorf("the model answers %s %q", all[3].Metadata.Status, got)
	}
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeItemDeleted || ev.Type == realtime.TypeError {
			t.Errorf("the browser got %s", ev.Raw)
		}
	}
}
