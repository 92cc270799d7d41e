package bridge_test

import (
	"strings"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/realtime"
)

// TestTextTurnEnds begins a call while a text turn runs. When that has ended the model is
// told its answer, once and in the thread's order, and the thread holds it once.
func TestTextTurnEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqlite(t), benchConfig{})
	thread, err := b.store.CreateThread(b.ctx, owner, "")
	if err != nil {
		t.Fatal(err)
	}
	key := persistence.Key{Owner: owner, Thread: thread.ID}
	answer := persistence.Message{ID: "answer", Role: persistence.RoleAssistant, Parts: []persistence.Part{persistence.TextPart("About")}}
	answer.Metadata.Source, answer.Metadata.Status = persistence.SourceText, persistence.StatusInProgress
	if err := b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if err := w.ClaimTurn("turn", time.Hour); err != nil {
			return err
		}
		if _, err := w.AppendMessage(persistence.Message{ID: "question", Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart("How tall is it?")}}); err != nil {
			return err
		}
		_, err := w.AppendMessage(answer)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c := b.dial(bridge.Start{ThreadID: thread.ID})
	c.next("bridge.ready")
	answer.Parts[0] = persistence.TextPart("About eight metres.")
	answer.Metadata.Status = persistence.StatusCompleted
	if err := b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if _, err := w.UpdateMessage(answer); err != nil {
			return err
		}
		return w.EndTurn("turn")
	}); err != nil {
		t.Fatal(err)
	}
	session, err := b.sim.WaitSession(b.ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.WaitFor(b.ctx, func(ev realtime.Event) bool { return strings.Contains(string(ev.Raw), "eight metres") }); err != nil {
		t.Fatal(err)
	}
	c.say("What did I say before?")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	var told []string
	for _, r := range session.Received() {
		for _, words := range []string{"How tall", "About", "What did I"} {
			if strings.Contains(string(r.Event.Raw), words) {
				told = append(told, words)
			}
		}
	}
	if got := strings.Join(told, ", "); got != "How tall, About, What did I" {
		t.Errorf("the model was told: %s", got)
	}
	if all := b.messages(key); len(all) != 4 || all[1].ID != "answer" {
		t.Errorf("thread:\n%s", b.script(key))
	}
}
