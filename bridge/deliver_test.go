package bridge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// TestDeliver delivers a queued message to a call: the same transaction marks it as sent
// and adds it to the thread.
func TestDeliver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testDeliver)
}

func testDeliver(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	c := b.dial(bridge.Start{})
	if _, _, err := b.store.Queued.Add(b.ctx, c.key(), queued.Message{Text: "good morning"}, 0); err != nil {
		t.Fatal(err)
	}
	claim, err := b.store.Queued.Claim(b.ctx, c.key(), queued.ClaimOptions{Call: c.CallID})
	if err != nil || claim.Message == nil || !claim.InCall {
		t.Fatalf("Claim() = %+v, %v", claim, err)
	}
	m := thread.Message{ID: claim.Message.MessageID, Parts: []thread.Part{thread.TextPart(claim.Message.Text)}}
	m.Metadata.Extra = map[string]json.RawMessage{"queue_id": json.RawMessage(`"q"`)}
	if _, err := b.calls.Say(b.ctx, c.key(), m, claim.Message.ID); err != nil {
		t.Fatal(err)
	}
	sent, err := b.store.Queued.Message(b.ctx, c.key(), claim.Message.ID)
	if err != nil || sent.State != queued.Sent {
		t.Errorf("Message() = %+v, %v", sent, err)
	}
	if got, err := b.store.Message(b.ctx, c.key(), m.ID); err != nil || string(got.Metadata.Extra["queue_id"]) != `"q"` {
		t.Errorf("Message() = %+v, %v", got, err)
	}
	c.next(realtime.TypeOutputBufferStopped)
	if id, _ := b.calls.Call(c.key()); id != c.CallID {
		t.Errorf("Call() = %q", id)
	}
	long := thread.Message{ID: "long", Parts: []thread.Part{thread.TextPart(strings.Repeat("x", 40<<10))}}
	if _, err := b.calls.Say(b.ctx, c.key(), long, "long"); !errors.Is(err, persistence.ErrInvalid) || persistence.Reason(err) != "invalid text: a call accepts 1 to 32768 bytes" {
		t.Errorf("Say() of a long text = %v", err)
	}
	b.hangUp(c)
	if _, err := b.calls.Say(b.ctx, c.key(), m, claim.Message.ID); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Say() after the call = %v", err)
	}
	if id, busy := b.calls.Call(c.key()); id != "" || busy {
		t.Errorf("Call() after the call = %q, %v", id, busy)
	}
	want := "user text completed: good morning\nassistant voice completed: Good to see you again. What shall we look at today?\n"
	testkit.Equal(t, b.script(c.key()), want, "thread")
}
