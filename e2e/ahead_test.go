package e2e

import (
	"testing"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// TestSocketAhead has both sides speak over WebSocket: an answer comes faster than it is heard, its client says what was heard
// of it, and where it says nothing, the clock does.
func TestSocketAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{socket: true})
	c, status, body := r.connect(t, handshake{})
	if c == nil {
		t.Fatalf("call: %d %s", status, body)
	}
	c.next("bridge.ready")
	begin := func() (item string, began time.Time) {
		c.say(countPlease)
		item, began = c.next(realtime.TypeOutputAudioDelta).ItemID, time.Now()
		before := len(c.heard())
		c.until("sound ahead of real time", func() bool {
			length := time.Duration(len(c.pcm)/2-before) * time.Second / 24_000
			return length > time.Since(began)+4*time.Second
		})
		return item, began
	}
	heard := func(item string, ms int64) {
		truncated := c.wait("truncation", func(ev timedEvent) bool { return ev.Type == realtime.TypeItemTruncated && ev.ItemID == item })
		if ms >= 0 && truncated.AudioEndMS != ms {
			t.Errorf("the answer was truncated at %d ms, want %d", truncated.AudioEndMS, ms)
		}
		c.saved("interruption", func(m thread.Message) bool {
			return m.Metadata.Status == thread.StatusInterrupted && m.Metadata.AudioEndMS != nil && *m.Metadata.AudioEndMS == truncated.AudioEndMS
		})
	}

	item, _ := begin()
	c.put(`{"type":"response.cancel"}`)
	c.put(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":1234}`, item)
	heard(item, 1234)

	item, _ = begin()
	c.append(samples(t, simulator.UserSpeech()))
	c.next(realtime.TypeInputSpeechStarted)
	heard(item, -1)
	c.saved("answer to the question", says(thread.RoleAssistant, spokenAnswer))

	item, _ = begin()
	c.append(samples(t, simulator.UserSpeech()))
	c.next(realtime.TypeInputSpeechStarted)
	c.put(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":2345}`, item)
	heard(item, 2345)
	for _, record := range c.session.Received() {
		if record.Event.Type == realtime.TypeItemTruncate && record.Refused != "" {
			t.Errorf("the upstream refused with %s: %s", record.Refused, record.Event.Raw)
		}
	}
	c.hangUp()
}
