package bridge

import (
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/realtime/media"
)

// sink counts packets.
type sink struct{ packets int }

func (c *sink) WriteAudio(*media.Packet) error { c.packets++; return nil }

// TestListeningUpstream fills silence that a caller saves as long as an upstream over WebRTC hears somebody speak, by
// its events.
func TestListeningUpstream(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		events []string
		filled bool
	}{
		"nobody speaks": {nil, false},
		"speech":        {[]string{`{"type":"input_audio_buffer.speech_started"}`}, true},
		"its end":       {[]string{`{"type":"input_audio_buffer.speech_started"}`, `{"type":"input_audio_buffer.speech_stopped"}`}, false},
		"a commit":      {[]string{`{"type":"input_audio_buffer.speech_started"}`, `{"type":"input_audio_buffer.committed"}`}, false},
		"only words":    {[]string{`{"type":"error","error":{"message":"\"input_audio_buffer.speech_started"}}`}, false},
		"no JSON":       {[]string{`{"input_audio_buffer.speech_started"`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var up sink
				taken := 0
				l := &realtimeLeg{sound: media.NewFiller(&up)}
				take := l.listening(func([]byte) { taken++ })
				for _, ev := range tt.events {
					take([]byte(ev))
				}
				if err := l.WriteAudio(&media.Packet{Payload: []byte{0xf8}}); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				l.sound.Hears(false)
				time.Sleep(time.Second)
				synctest.Wait()
				if filled := up.packets > 40; filled != tt.filled || !filled && up.packets != 1 || taken != len(tt.events) {
					t.Errorf("%d packets, %d events", up.packets, taken)
				}
			})
		})
	}
}
