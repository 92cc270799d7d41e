package ws

import (
	"log/slog"
	"testing"

	"voicebridge/realtime"
)

// FuzzUpstream has an upstream say anything: what the client gets can be read, and nothing panics.
func FuzzUpstream(f *testing.F) {
	for _, seed := range []string{
		`{"type":"session.updated","session":{"turn_detection":null,"modalities":["text","audio"],"tools":[{"type":"function","function":{"name":"f"}},1]}}`,
		`{"type":"response.audio.delta","response_id":"r","item_id":"i","delta":"AAAA"}`, `{"type":"response.audio.delta","delta":"?"}`,
		`{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.done","response":{"output":[{"role":"assistant","content":[{"type":"audio"}]},3]}}`,
		`{"type":"conversation.item.created","item":{"role":"assistant","content":7}}`, `{"type":"conversation.item.created","item":7}`,
		`{"type":"input_audio_buffer.speech_started"}`, `{"type":"error","error":{"event_id":"bridge_ws_i"}}`, `{"type":"session.created","session":{"audio":1,"voice":2}}`,
		`{"type":"conversation.item.input_audio_transcription.updated","item_id":"i","transcript":"a"}`, `[]`, `{"type":"response.output_audio.done"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range Profiles {
			c := newConn(newFakeSocket(), p.withDefaults(), "m", new(shared), slog.New(slog.DiscardHandler))
			for range 2 {
				if ev, err := realtime.Decode(data); err == nil {
					c.take(ev)
					c.play.frame(nil)
					c.play.ahead(1)
					c.play.next(true, true)
					_ = c.profile.sent(ev, true, "more", "m")
				}
			}
			events, _ := c.inbox.pop()
			for _, raw := range events {
				if _, err := realtime.Decode(raw); err != nil {
					t.Errorf("%s says %q as %q", p.Name, data, raw)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
