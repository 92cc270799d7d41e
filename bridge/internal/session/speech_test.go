package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLateSound counts an answer's latency from when the caller had spoken, not from when an upstream heard of it: sound may
// have been held until the session was ready. What is said of it is bounded.
func TestLateSound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		said *Said
		want string
	}{
		"nobody knows":  {nil, "first_audio:200"},
		"in time":       {&Said{Late: 40 * time.Millisecond}, "first_audio:240"},
		"held":          {&Said{Late: 3 * time.Second}, "first_audio:3200"},
		"held for ever": {&Said{Late: time.Hour}, "first_audio:10200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &scripted{t: t, now: epoch, s: newTestState(t, Config{})}
			c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
			c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
			c.pass("30s")
			c.play(`up {"type":"input_audio_buffer.speech_started","item_id":"i1","audio_start_ms":28000}`)
			c.reduce(UpstreamEvent{Gen: 1, Data: []byte(`{"type":"input_audio_buffer.speech_stopped","item_id":"i1","audio_end_ms":30000}`), Said: tt.said})
			c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
			c.play(`up {"type":"response.created","response":{"id":"r1","status":"in_progress"}}`)
			c.play(`up {"type":"response.output_item.added","response_id":"r1","item":{"id":"i2","type":"message","role":"assistant"}}`)
			c.pass("200ms")
			c.play(`up {"type":"output_audio_buffer.started","response_id":"r1"}`)
			c.play(`up {"type":"response.output_audio_transcript.done","response_id":"r1","item_id":"i2","content_index":0,"transcript":"Yes."}`)
			c.play(`up {"type":"response.done","response":{"id":"r1","status":"completed","output":[]}}`)
			if out := c.out.String(); !strings.Contains(out, tt.want+" ") {
				t.Errorf("no %s in\n%s", tt.want, out)
			}
		})
	}
}

// TestStagesOfSpeech counts all stages of an answer from the end of speech, also where the upstream tells how long after it the turn was over.
func TestStagesOfSpeech(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]string{
		`{}`: "map[commit:0 first_audio:200 response:0]",
		`{"turn":300,"first_text":350,"first_audio":480}`: "map[commit:300 first_audio:500 first_text:350 response:300 turn:300]",
		`{"first_text":50,"first_audio":180}`:             "map[commit:0 first_audio:200 first_text:50 response:0]", // of what was typed
	} {
		c := &scripted{t: t, now: epoch, s: newTestState(t, Config{})}
		c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
		c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
		c.play(`up {"type":"input_audio_buffer.speech_started","item_id":"i1","audio_start_ms":0}`)
		c.play(`up {"type":"input_audio_buffer.speech_stopped","item_id":"i1","audio_end_ms":900}`)
		c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
		c.play(`up {"type":"response.created","response":{"id":"r1","status":"in_progress"}}`)
		c.play(`up {"type":"response.output_item.added","response_id":"r1","item":{"id":"i2","type":"message","role":"assistant"}}`)
		c.pass("200ms")
		c.play(`up {"type":"output_audio_buffer.started","response_id":"r1"}`)
		c.play(`up {"type":"response.output_audio_transcript.done","response_id":"r1","item_id":"i2","content_index":0,"transcript":"Yes."}`)
		c.play(`up {"type":"bridge_session.speech","response_id":"r1","latency_ms":` + told + `}`)
		c.play(`up {"type":"response.done","response":{"id":"r1","status":"completed","output":[]}}`)
		if out := c.out.String(); !strings.Contains(out, want) {
			t.Errorf("told %s: no %s in\n%s", told, want, out)
		}
	}
}

// TestPlaceOfSpeech has an upstream whose count of the caller's audio is behind the time, because the client has sent none for
// a while: what is said is in the recording where it was said. Where the count is right, it holds.
func TestPlaceOfSpeech(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		startMS, endMS int
		want           string
	}{
		"all was sent":          {30000, 32000, "recorded 30000-32000 ms"},
		"the event came late":   {29800, 31800, "recorded 29800-32000 ms"},
		"a gap of 3 s":          {27000, 29000, "recorded 30000-32000 ms"},
		"a gap in what is said": {30000, 31000, "recorded 30000-32000 ms"},
		"gaps before and in it": {27000, 28000, "recorded 30000-32000 ms"},
		"no end":                {30000, 0, "recorded 30000-32000 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &scripted{t: t, now: epoch, s: newTestState(t, Config{KeepSound: true})}
			c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
			c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
			c.pass("30300ms")
			c.play(fmt.Sprintf(`up {"type":"input_audio_buffer.speech_started","item_id":"i1","audio_start_ms":%d}`, tt.startMS))
			c.pass("1700ms")
			c.play(fmt.Sprintf(`up {"type":"input_audio_buffer.speech_stopped","item_id":"i1","audio_end_ms":%d}`, tt.endMS))
			c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
			if out := c.out.String(); !strings.Contains(out, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, out)
			}
		})
	}
}
