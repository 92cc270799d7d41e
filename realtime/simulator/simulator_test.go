package simulator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// collapse drops repetitions of deltas.
func collapse(types []string) []string {
	return slices.CompactFunc(types, func(a, b string) bool { return a == b && strings.HasSuffix(a, ".delta") })
}

func TestTypedTurn(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.update(`{"type":"realtime","instructions":"Be kind."}`)
	c.say("good morning")
	c.next(realtime.TypeOutputBufferStopped)

	got := collapse(c.types())
	want := []string{
		"session.created", "session.updated", "conversation.item.added", "conversation.item.done",
		"response.created", "rate_limits.updated", "response.output_item.added", "conversation.item.added",
		"response.content_part.added", "output_audio_buffer.started", "response.output_audio_transcript.delta",
		"response.output_audio.done", "response.output_audio_transcript.done", "response.content_part.done",
		"response.output_item.done", "conversation.item.done", "response.done", "output_audio_buffer.stopped",
	}
	testkit.Equal(t, got, want, "events")
	var text strings.Builder
	deltas := 0
	for _, e := range c.all() {
		switch e.Type {
		case realtime.TypeAudioTranscriptDelta:
			text.WriteString(e.Delta)
			deltas++
		case realtime.TypeAudioTranscriptDone:
			testkit.Equal(t, e.Transcript, text.String(), "transcript is, its deltas")
		case realtime.TypeResponseDone:
			r := response(t, e)
			if r.Status != "completed" || r.Usage == nil || r.Usage.OutputAudio == 0 || len(r.Output) != 1 {
				t.Errorf("response is %+v", r)
			}
		case realtime.TypeContentPartAdded:
			if !strings.Contains(string(e.Part), `"type":"audio"`) {
				t.Errorf("part is %s", e.Part)
			}
		}
	}
	if deltas < 3 || text.String() != "Good to see you again. What shall we look at today?" {
		t.Errorf("%d deltas of %q", deltas, text.String())
	}
	sent := int(c.ses.PacketsPlayed())
	packets, loud, errs := c.sink.await(c.ctx, sent*9/10)
	if packets < sent*9/10 || sent < 150 || loud < packets/3 || errs != 0 {
		t.Errorf("heard %d packets of %d, %d loud, %d errors", packets, sent, loud, errs)
	}
	checkRTP(t, c.sink)
}

// checkRTP checks that sequence numbers have no gaps and timestamps advance by whole
// frames.
func checkRTP(t *testing.T, s *sink) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.packets); i++ {
		a, b := s.packets[i-1], s.packets[i]
		testkit.Equal(t, b.Sequence, a.Sequence+1, "sequence follows %d", a.Sequence)
		if step := b.Timestamp - a.Timestamp; step == 0 || step%960 != 0 || (step > 960) != b.Marker {
			t.Errorf("timestamp moves by %d at packet %d (marker %v)", step, i, b.Marker)
		}
	}
}

func TestTextSession(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(`{"type":"realtime","model":"gpt-realtime","output_modalities":["text"]}`)
	c.say("hello")
	done := c.next(realtime.TypeResponseDone)
	if r := response(t, done); r.Output[0].Content[0].Type != realtime.ContentOutputText || r.Output[0].Text() == "" {
		t.Errorf("output is %+v", r.Output)
	}
	for _, e := range c.all() {
		if strings.Contains(e.Type, "audio") {
			t.Errorf("%s in a text session", e.Type)
		}
	}
}

const chartTools = `[{"type":"function","name":"create_bar_chart","parameters":{"type":"object"}},{"type":"function","name":"create_pie_chart","parameters":{"type":"object"}}]`

func TestParallelToolRound(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.update(`{"type":"realtime","tools":` + chartTools + `}`)
	c.say("draw two charts, please")
	var calls []realtime.Item
	c.wait("response.done", func(e realtime.Event) bool {
		if e.Type == realtime.TypeOutputItemDone {
			if it := item(t, e); it.Type == realtime.ItemFunctionCall {
				if it.Status != "completed" || len(it.CallID) > 32 || !json.Valid([]byte(it.Arguments)) {
					t.Errorf("call is %+v", it)
				}
				calls = append(calls, it)
			}
		}
		return e.Type == realtime.TypeResponseDone
	})
	if len(calls) != 2 || calls[0].Name != "create_bar_chart" || calls[1].Name != "create_pie_chart" {
		t.Fatalf("calls are %+v", calls)
	}
	for _, call := range calls {
		c.send(realtime.FunctionCallOutput(c.id(), "", call.CallID, `{"summary":"done","chartId":"c1"}`))
	}
	c.send(realtime.ResponseCreate(c.id()))
	done := c.next(realtime.TypeResponseDone)
	testkit.Equal(t, response(t, done).Output[0].Text(), "Here is your chart. Sales grew in every quarter of this year.", "follow-up")
	// The second response's audio waits for the first one's.
	c.next(realtime.TypeOutputBufferStopped)
	c.next(realtime.TypeOutputBufferStarted)
	c.next(realtime.TypeOutputBufferStopped)
	checkRTP(t, c.sink)
}

func TestOnlyDeclaredTools(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.say("a chart, please")
	r := response(t, c.next(realtime.TypeResponseDone))
	if len(r.Output) != 1 || r.Output[0].Type != realtime.ItemMessage {
		t.Errorf("output is %+v", r.Output)
	}
	c.send(realtime.SessionUpdate("u", json.RawMessage(`{"type":"realtime","tools":[{"type":"function","name":"weather__forecast","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":2}},"required":["city","days"]}}]}`)))
	c.next(realtime.TypeSessionUpdated)
	c.say("use the tool")
	r = response(t, c.next(realtime.TypeResponseDone))
	last := r.Output[len(r.Output)-1]
	if last.Name != "weather__forecast" || last.Arguments != `{"city":"hello","days":2}` {
		t.Errorf("call is %+v", last)
	}
	c.send(realtime.FunctionCallOutput(c.id(), "", last.CallID, `{"error":"no weather today"}`))
	c.send(realtime.ResponseCreate(c.id()))
	if got := response(t, c.next(realtime.TypeResponseDone)).Output[0].Text(); !strings.Contains(got, "error") {
		t.Errorf("follow-up is %q", got)
	}
}

func TestSpokenTurnAndBargeIn(t *testing.T) {
	script := simulator.DefaultScript()
	script.Spoken = []simulator.Reply{{Transcript: "Tell me all.", Say: script.Spoken[2].Say}} // 25 s: enough even for a busy machine
	b := newBench(t, simulator.Config{Script: script})
	c := b.dial(sessionAudio)
	c.speak(0)
	started := c.next(realtime.TypeInputSpeechStarted)
	stopped := c.next(realtime.TypeInputSpeechStopped)
	committed := c.next(realtime.TypeInputCommitted)
	added := item(t, c.next(realtime.TypeItemAdded))
	if started.ItemID == "" || stopped.ItemID != started.ItemID || committed.ItemID != started.ItemID || added.ID != started.ItemID {
		t.Errorf("ids differ: %s %s %s %s", started.ItemID, stopped.ItemID, committed.ItemID, added.ID)
	}
	if added.Role != "user" || added.Content[0].Type != realtime.ContentInputAudio || added.Text() != "" {
		t.Errorf("user item is %+v", added)
	}
	if length := stopped.AudioEndMS - started.AudioStartMS; length < 2000 || length > 6000 {
		t.Errorf("speech of %d ms", length)
	}
	if e := c.next(realtime.TypeTranscriptionCompleted); e.ItemID != added.ID || e.Transcript != "Tell me all." {
		t.Errorf("transcript is %q of %s", e.Transcript, e.ItemID)
	}
	done := c.next(realtime.TypeResponseDone)
	c.update(`{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad","create_response":false}}}}`)
	c.speak(100)
	c.next(realtime.TypeInputSpeechStarted)
	cleared := c.next(realtime.TypeOutputBufferCleared)
	truncated := c.next(realtime.TypeItemTruncated)
	r := response(t, done)
	if cleared.ResponseID != r.ID || truncated.ItemID != r.Output[0].ID || truncated.AudioEndMS < 100 || truncated.AudioEndMS > 24_000 {
		t.Errorf("cleared %s, truncated %s at %d ms", cleared.ResponseID, truncated.ItemID, truncated.AudioEndMS)
	}
	c.next(realtime.TypeInputSpeechStopped) // the stream has ended, which counts as silence
	c.next(realtime.TypeInputCommitted)
	testkit.Equal(t, c.ses.PacketsPlayed(), truncated.AudioEndMS/20, "packets were played for %d ms", truncated.AudioEndMS)
	// A truncated item has lost its transcript.
	c.send([]byte(`{"type":"conversation.item.retrieve","item_id":"` + truncated.ItemID + `"}`))
	if it := item(t, c.next(realtime.TypeItemRetrieved)); it.Text() != "" {
		t.Errorf("truncated item still says %q", it.Text())
	}
	checkRTP(t, c.sink)
}
