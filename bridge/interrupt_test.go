package bridge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
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

// TestFalseInterruption says "mhm" over a long answer, which goes on: it is one message and one response, and ends with
// its last word.
func TestFalseInterruption(t *testing.T) {
	t.Parallel()
	each(t, testFalseInterruption, pairsOf(webRTC, webSocket))
}

func testFalseInterruption(t *testing.T, p pair) {
	t.Helper()
	script := simulator.DefaultScript()
	script.Spoken = []simulator.Reply{{Transcript: "Mhm.", Say: "Pardon?"}}
	var turn bridge.Turn
	b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{Script: script}, bridge: bridge.Config{
		Settings: bridge.Settings{Session: bridge.SessionConfig{
			Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Interruption: assistant.Interruption{MinWords: new(2)},
		}},
		Observe: func(context.Context, thread.Key, string) bridge.Observer { return turnObserver{&turn} },
	}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Tell me a long story")
	c.next(realtime.TypeOutputBufferStarted)
	c.hear(60)
	c.speak()
	c.next(realtime.TypeOutputBufferCleared)
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	all := b.messages(c.key())
	if len(all) != 3 {
		t.Fatalf("thread:\n%s", b.script(c.key()))
	}
	story := all[1]
	if story.Metadata.Status != thread.StatusCompleted || string(story.Metadata.Extra["resumed"]) != "1" || story.Metadata.HeardText != nil {
		t.Errorf("the story: %+v", story.Metadata)
	}
	if text := story.Text(); !strings.HasPrefix(text, "Let me tell you") || !strings.HasSuffix(text, "my best wishes.") || strings.Count(text, "fifty") != 1 {
		t.Errorf("the story: %s", text)
	}
	testkit.Equal(t, all[2].Text(), "Mhm.", "what was said over it")
	var rests []string
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeAudioTranscriptDone && ev.ItemID != story.Metadata.ItemID {
			rests = append(rests, ev.ItemID)
		}
	}
	testkit.Equal(t, string(story.Metadata.Extra["rest_item_ids"]), fmt.Sprintf("%q", rests), "the items with the rest")
	if len(turn.Responses) != 1 || turn.Responses[0].Status != realtime.ResponseCompleted {
		t.Errorf("the responses: %+v", turn.Responses)
	}
}

// turnObserver keeps the last turn.
type turnObserver struct{ turn *bridge.Turn }

func (turnObserver) SetUp(bridge.SetUp) {}

func (o turnObserver) TurnOver(turn bridge.Turn) { *o.turn = turn }

func (turnObserver) Ended(bridge.EndReason) {}
