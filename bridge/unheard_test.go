package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// unheardAnswer is what the agent has answered to a call that has ended before.
const unheardAnswer = "It was Forty two."

// askedThread is a thread whose last call has ended while the agent was asked; running means that it still is.
func (b *bench) askedThread(running bool) (key thread.Key, answer thread.Message) {
	b.t.Helper()
	key = persistencetest.NewThread(b.t, b.store, owner, "")
	question := thread.Message{ID: "question", Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("How many were there?")}}
	tool := thread.ToolPart("ask_agent")
	tool.ToolCallID, tool.State, tool.ErrorText = "call_1", thread.ToolOutputError, toolkit.WhyCallEnded
	tool.Input = json.RawMessage(`{"question":"How many were there?"}`)
	asking := thread.Message{ID: "asking", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("One moment."), tool}}
	answer = thread.Message{ID: "answer", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("It was")}}
	for _, m := range []*thread.Message{&question, &asking} {
		m.Metadata.Source, m.Metadata.Status, m.Metadata.CallID = thread.SourceVoice, thread.StatusCompleted, "call-0"
	}
	answer.Metadata.Source, answer.Metadata.Status = thread.SourceText, thread.StatusInProgress
	answer.Metadata.Extra = map[string]json.RawMessage{thread.MetadataAskedBy: json.RawMessage(`"call_1"`)}
	must(b.t, b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if err := w.ClaimTurn("turn"); err != nil {
			return err
		}
		for _, m := range []thread.Message{question, asking, answer} {
			if _, err := w.AppendMessage(m); err != nil {
				return err
			}
		}
		return nil
	}))
	answer.Parts[0], answer.Metadata.Status = thread.TextPart(unheardAnswer), thread.StatusCompleted
	if !running {
		b.answers(key, answer)
	}
	return key, answer
}

// answers ends the agent's turn.
func (b *bench) answers(key thread.Key, answer thread.Message) {
	b.t.Helper()
	must(b.t, b.store.Batch(b.ctx, key, func(w *persistence.Batch) error {
		if _, err := w.UpdateMessage(answer); err != nil {
			return err
		}
		return w.Apply(persistence.PutTurn{ID: "turn"})
	}))
}

// TestUnheard has a call end before the agent has answered: the next call says the answer, whether it was there before
// or comes only now, and no later one does.
func TestUnheard(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"before": false, "meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all(t, func(t *testing.T, p pair) { testUnheard(t, p, running) })
		})
	}
}

func testUnheard(t *testing.T, p pair, running bool) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p})
	key, answer := b.askedThread(running)
	c := b.dial(bridge.Start{ThreadID: key.Thread})
	c.next("bridge.ready")
	if running {
		b.answers(key, answer)
	}
	c.wait("the answer", func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeAudioTranscriptDone && strings.Contains(ev.Transcript, unheardAnswer)
	})
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	again := b.dial(bridge.Start{ThreadID: key.Thread})
	again.next("bridge.ready")
	again.answered("Hello")
	b.hangUp(again)
	if got := b.script(key); strings.Count(got, "assistant voice completed: "+unheardAnswer) != 1 {
		t.Errorf("thread:\n%s", got)
	}
}
