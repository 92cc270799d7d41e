package leg

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

// sources counts the packets of each stream.
type sources map[uint32]int

func (s sources) WriteAudio(p *media.Packet) error { s[p.Source]++; return nil }

// TestTone has a tone take the place of silence until the model is heard, or the call wants no tone any more.
func TestTone(t *testing.T) {
	t.Parallel()
	loud := make([]int16, 480)
	for i := range loud {
		loud[i] = int16(4000 * math.Sin(float64(i)/10))
	}
	encoder, err := opus.NewEncoder(24_000)
	testkit.Must(t, err)
	sound, err := encoder.Encode(loud)
	testkit.Must(t, err)
	linear := media.Format{Rate: 24_000}
	for name, tt := range map[string]struct {
		packet media.Packet
		ends   bool
	}{
		"Opus that sounds":      {media.Packet{Payload: sound}, true},
		"silence in Opus":       {media.Packet{Payload: []byte{0xf8, 0xff, 0xfe}}, false},
		"no Opus":               {media.Packet{Payload: []byte{0xff, 0xff}}, false},
		"samples that sound":    {media.Packet{Format: linear, Payload: pcm.Linear.Append(nil, loud)}, true},
		"samples of silence":    {media.Packet{Format: linear, Payload: make([]byte, 960)}, false},
		"half a packet":         {media.Packet{Format: linear, Payload: make([]byte, 7)}, false},
		"sound before its time": {media.Packet{Part: &media.Part{Response: "r"}, Format: linear, Payload: make([]byte, 960)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tone Tone
				heard := sources{}
				tone.Set(heard)
				tt.packet.Source = 1
				count := func() (model, tones int) {
					synctest.Wait()
					tone.mu.Lock()
					defer tone.mu.Unlock()
					for source, n := range heard {
						if source != 1 {
							tones += n
						}
					}
					return heard[1], tones
				}
				testkit.Must(t, tone.WriteAudio(&tt.packet))
				for range 3 { // however often it begins, there is one
					tone.Sound(true)
				}
				time.Sleep(time.Second)
				if model, tones := count(); model != 1 || tones != 51 {
					t.Errorf("%d packets, and %d of the tone in a second", model, tones)
				}
				tt.packet.Sequence++
				testkit.Must(t, tone.WriteAudio(&tt.packet))
				time.Sleep(time.Second)
				if model, tones := count(); (model == 2) != tt.ends || (tones == 51) != tt.ends {
					t.Errorf("then %d packets, and %d of the tone", model, tones)
				}
				tone.Sound(false)
				_, before := count()
				tt.packet.Sequence++
				testkit.Must(t, tone.WriteAudio(&tt.packet))
				time.Sleep(time.Second)
				if model, tones := count(); model < 2 || tones != before {
					t.Errorf("after the end %d packets, and %d more of the tone", model, tones-before)
				}
			})
		})
	}
}
