package simulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
)

// TestEndedSessions keeps ended sessions without what takes memory.
func TestEndedSessions(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.ses.Drop()
	testkit.Take(t, "the end of c.ses", c.ses.Done())
	if c.ses.Holds() || !errors.Is(c.ses.WriteAudio(&media.Packet{}), media.ErrClosed) {
		t.Error("an ended session holds its connection")
	}
}

// slow leaves time to interrupt a generation.
var slow = simulator.Pace{Think: 50 * time.Millisecond, Step: 150 * time.Millisecond, Transcript: 50 * time.Millisecond}

func TestBargeInWhileGenerating(t *testing.T) {
	b := newBench(t, simulator.Config{Pace: slow})
	c := b.dial(sessionAudio)
	c.say("tell me a long story")
	for range 3 {
		c.next(realtime.TypeAudioTranscriptDelta)
	}
	c.ses.SimulateSpeech()
	c.next(realtime.TypeInputSpeechStarted)
	order := []string{
		realtime.TypeOutputAudioDone, realtime.TypeAudioTranscriptDone, realtime.TypeContentPartDone, realtime.TypeOutputItemDone,
		realtime.TypeItemDone, realtime.TypeResponseDone, realtime.TypeOutputBufferCleared, realtime.TypeItemTruncated,
		realtime.TypeInputSpeechStopped, realtime.TypeInputCommitted,
	}
	for _, kind := range order {
		e := c.wait(kind, func(realtime.Event) bool { return true })
		if e.Type != kind {
			t.Fatalf("%s came where %s must", e.Type, kind)
		}
		if kind == realtime.TypeResponseDone {
			r := response(t, e)
			if r.Status != "cancelled" || r.StatusDetails.Reason != "turn_detected" || r.Output[0].Status != "incomplete" {
				t.Errorf("response is %+v", r)
			}
			if full := r.Output[0].Text(); !strings.HasPrefix(full, "Let me tell you how") || strings.Contains(full, "best wishes") {
				t.Errorf("text so far is %q", full)
			}
		}
	}
}

func TestNoInterruptResponse(t *testing.T) {
	b := newBench(t, simulator.Config{Pace: slow})
	c := b.dial(`{"type":"realtime","model":"gpt-realtime","audio":{"input":{"turn_detection":{"type":"server_vad","interrupt_response":false}}}}`)
	c.say("tell me a long story")
	c.next(realtime.TypeAudioTranscriptDelta)
	c.ses.SimulateSpeech()
	c.next(realtime.TypeInputCommitted)
	if e := c.next(realtime.TypeError); e.Error.Code != "conversation_already_has_active_response" {
		t.Errorf("error is %+v", e.Error)
	}
	if types := c.types(); slices.Contains(types, realtime.TypeOutputBufferCleared) || slices.Contains(types, realtime.TypeResponseDone) {
		t.Errorf("interrupted: %v", types)
	}
}

func TestManualTurn(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.update(`{"type":"realtime","audio":{"input":{"turn_detection":null}}}`)
	c.speak(50)
	c.send(realtime.InputAudioBufferCommit("commit"))
	c.next(realtime.TypeInputCommitted)
	c.next(realtime.TypeTranscriptionCompleted)
	c.send(realtime.ResponseCreate("r"))
	c.next(realtime.TypeResponseDone)
	c.send(realtime.InputAudioBufferClear("clear"))
	c.next(realtime.TypeInputCleared)
	if types := c.types(); slices.Contains(types, realtime.TypeInputSpeechStarted) {
		t.Errorf("turns were detected: %v", types)
	}
}

func TestTranscriptFaults(t *testing.T) {
	turn := func(t *testing.T, f simulator.TranscriptFault) (*caller, []string) {
		b := newBench(t, simulator.Config{Faults: simulator.Faults{Transcripts: f}})
		c := b.dial(sessionAudio)
		var ids []string
		for range 2 {
			c.ses.SimulateSpeech()
			ids = append(ids, c.next(realtime.TypeInputCommitted).ItemID)
			c.next(realtime.TypeResponseDone)
		}
		return c, ids
	}
	t.Run("failed", func(t *testing.T) {
		c, ids := turn(t, simulator.TranscriptFailed)
		var failed []string
		for _, e := range c.all() {
			if e.Type == realtime.TypeTranscriptionFailed && e.Error.Code == "audio_unintelligible" {
				failed = append(failed, e.ItemID)
			}
		}
		if len(failed) == 0 || failed[0] != ids[0] {
			t.Errorf("failed %v of %v", failed, ids)
		}
	})
	t.Run("reversed", func(t *testing.T) {
		c, ids := turn(t, simulator.TranscriptReversed)
		c.mu.Lock()
		c.seen = 0
		c.mu.Unlock()
		first, second := c.next(realtime.TypeTranscriptionCompleted), c.next(realtime.TypeTranscriptionCompleted)
		if first.ItemID != ids[1] || second.ItemID != ids[0] {
			t.Errorf("transcripts of %s, %s; turns %v", first.ItemID, second.ItemID, ids)
		}
	})
	t.Run("late", func(t *testing.T) {
		c, ids := turn(t, simulator.TranscriptLate)
		if e := c.next(realtime.TypeTranscriptionCompleted); e.ItemID != ids[0] {
			t.Errorf("transcript of %s, turns %v", e.ItemID, ids)
		}
	})
	t.Run("never", func(t *testing.T) {
		c, _ := turn(t, simulator.TranscriptNever)
		c.next(realtime.TypeOutputBufferStopped)
		for _, kind := range c.types() {
			if strings.Contains(kind, "transcription") {
				t.Errorf("%s came", kind)
			}
		}
	})
}

func TestOddEvents(t *testing.T) {
	b := newBench(t, simulator.Config{Faults: simulator.Faults{
		InjectUnknown: true, InjectMalformed: true, DuplicateEvents: true, ItemsOutOfOrder: true, ConversationEvent: true,
	}})
	c := b.dial(sessionAudio)
	c.next(realtime.TypeConversationCreated)
	c.ses.SimulateSpeech()
	user := c.next(realtime.TypeInputCommitted).ItemID
	assistant := c.wait("assistant item", func(e realtime.Event) bool {
		if e.Type != realtime.TypeItemAdded || e.Malformed != nil {
			return false
		}
		it := item(t, e)
		if it.ID == user {
			t.Error("the user's item came first")
		}
		return it.Role == "assistant"
	})
	testkit.Equal(t, assistant.PreviousItemID, user, "assistant follows")
	c.wait("user item", func(e realtime.Event) bool {
		return e.Type == realtime.TypeItemAdded && item(t, e).ID == user
	})
	c.next(realtime.TypeResponseDone)
	c.next(realtime.TypeOutputBufferStopped)
	malformed, unknown := 0, 0
	ids := map[string]int{}
	for _, e := range c.all() {
		if e.Malformed != nil {
			malformed++
		}
		if strings.HasPrefix(e.Type, "response.hologram") {
			unknown++
		}
		if e.Type == realtime.TypeItemDone && e.EventID != "event_null_item" {
			ids[e.EventID]++
		}
	}
	if malformed != 2 || unknown != 1 || len(c.raw) <= len(c.all()) {
		t.Errorf("%d malformed and %d unknown events, %d messages, %d events", malformed, unknown, len(c.raw), len(c.all()))
	}
	for id, n := range ids {
		testkit.Equal(t, n, 2, "event %s came times", id)
	}
	c.ses.Inject([]byte(`{"type":"test.injected"}`))
	c.next("test.injected")
}

func TestFailedResponseAndBadArguments(t *testing.T) {
	b := newBench(t, simulator.Config{Faults: simulator.Faults{FailResponses: 1, BadArguments: true, RejectSessionUpdate: 1, RejectItems: 1}})
	c := b.dial(sessionAudio)
	if e := c.fails("u", realtime.SessionUpdate("u", json.RawMessage(`{"type":"realtime"}`))); e.Code != "invalid_value" {
		t.Errorf("error is %+v", e)
	}
	c.update(`{"type":"realtime","tools":` + chartTools + `}`)
	if e := c.fails("i", realtime.FunctionCallOutput("i", "", "call_a", "1")); e.Code != "invalid_value" {
		t.Errorf("error is %+v", e)
	}
	c.say("a chart")
	if r := response(t, c.next(realtime.TypeResponseDone)); r.Status != "failed" || r.StatusDetails.Error.Code != "rate_limit_exceeded" || r.Usage != nil {
		t.Errorf("response is %+v", r)
	}
	c.send(realtime.ResponseCreate("again"))
	r := response(t, c.next(realtime.TypeResponseDone))
	if call := r.Output[len(r.Output)-1]; call.Type != realtime.ItemFunctionCall || json.Valid([]byte(call.Arguments)) {
		t.Errorf("call is %+v", call)
	}
}

func TestRecord(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(`{"type":"realtime","model":"gpt-realtime","audio":{"input":{"turn_detection":null}}}`)
	c.speak(10)
	// Audio and events take different paths: the count is of what has arrived.
	c.heard(1)
	c.send(realtime.ItemCreate("one", realtime.Item{Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: "x"}}}, ""))
	c.send([]byte(`{"type":"nonsense","event_id":"two"}`))
	c.update(`{"type":"realtime"}`)
	before := c.ses.PacketsBeforeUpdate()
	c.speak(10)
	e, err := c.ses.WaitFor(c.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdate })
	if err != nil || e.Session == nil {
		t.Errorf("session.update: %+v, %v", e, err)
	}
	if before == 0 || before > 10 || c.ses.PacketsBeforeUpdate() != before {
		t.Errorf("%d packets before, then %d", before, c.ses.PacketsBeforeUpdate())
	}
	var got []string
	for _, r := range c.ses.Received() {
		got = append(got, r.Event.Type+" "+r.Refused)
		if r.At.IsZero() {
			t.Error("no time")
		}
	}
	testkit.Equal(t, got, []string{"conversation.item.create ", "nonsense invalid_value", "session.update "}, "received")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ses.WaitFor(ctx, func(realtime.Event) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if _, err := c.ses.WaitForSent(c.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdated }); err != nil {
		t.Error(err)
	}
}
