package live

import (
	"math"
	"math/rand/v2"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/simulator"
)

// TestCallerSpeaks tells a caller who speaks over an answer from other sound.
func TestCallerSpeaks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gain, noise float64 // of speech, and of coughs
		answers     bool
		begins      int
	}{
		"speech":                  {1, 0, true, 1},
		"speech over nothing":     {1, 0, false, 0},
		"somebody else, far away": {0.02, 0, true, 0},
		"coughs":                  {0, 6000, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begins := 0
			s := &sound{peer: sinkFunc(func(*media.Packet) error { return nil }), begins: func() { begins++ }}
			s.answers.Store(tt.answers)
			decoder, err := opus.NewDecoder(opus.ClockRate)
			testkit.Must(t, err)
			encoder, err := opus.NewEncoder(opus.ClockRate)
			testkit.Must(t, err)
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
			for i, frame := range simulator.UserSpeech()[:200] {
				samples, err := decoder.Decode(frame)
				testkit.Must(t, err)
				age := i % 50 * len(samples) // a second after the last cough
				for i, v := range samples {
					cough := tt.noise * random.NormFloat64() * math.Exp(-float64(age+i)/9600)
					samples[i] = int16(max(math.MinInt16, min(math.MaxInt16, float64(v)*tt.gain+cough)))
				}
				payload, err := encoder.Encode(samples)
				testkit.Must(t, err)
				testkit.Must(t, s.write(&media.Packet{Payload: payload}))
				if tt.begins > 0 && begins > 0 {
					break // pauses may be silent: it would begin again
				}
			}
			testkit.Equal(t, begins, tt.begins, "times that the caller begins to speak")
		})
	}
}
