package vad

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/pcm"
)

// mix is at 16 kHz: a sentence from 500 to 3550 ms, white noise of -35 dBFS from 4000 to 5000 and a sentence of -45 dBFS
// from 5700 to 8240, by two voices; soft noise everywhere.
func mix(t testing.TB) []int16 {
	t.Helper()
	data, err := os.ReadFile("testdata/mix.wav")
	testkit.Must(t, err)
	return pcm.Linear.Decode(nil, data[44:])
}

// TestNetwork compares each probability with the one that ONNX Runtime computes from the original file.
func TestNetwork(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/mix.json")
	testkit.Must(t, err)
	var oracle struct{ Probabilities []float64 }
	testkit.Must(t, json.Unmarshal(data, &oracle))
	n, sound, worst := network{weights: load()}, mix(t), 0.0
	testkit.Equal(t, len(oracle.Probabilities), len(sound)/window, "windows")
	for i, want := range oracle.Probabilities {
		worst = max(worst, math.Abs(float64(n.step(sound[i*window:]))-want))
	}
	if t.Logf("the largest difference is %.2g", worst); !(worst < 1e-4) {
		t.Error("too much")
	}
}

// segment is what the detector takes for speech, in ms.
type segment struct{ from, to int64 }

// segments lets a new detector hear sound in chunks of so many samples, and returns what was speech between pauses of
// 650 ms. Time is that of the samples.
func segments(sound []int16, rate, chunk int) (found []segment) {
	d, at := New(), 0
	for speaking := false; len(sound) > 0; sound = sound[min(chunk, len(sound)):] {
		n := min(chunk, len(sound))
		spoken, quiet := d.Hear(sound[:n], rate)
		at += n
		now := int64(at * 1000 / rate)
		if spoken > 0 && !speaking {
			found, speaking = append(found, segment{from: now - spoken, to: -1}), true
		}
		if quiet >= 650 {
			found[len(found)-1].to, speaking = now-quiet, false
			d.Begin(0.5)
		}
	}
	return found
}

func TestSegments(t *testing.T) {
	t.Parallel()
	law := func(e pcm.Encoding) func([]int16) []int16 {
		return func(sound []int16) []int16 { return e.Decode(nil, e.Append(nil, sound)) }
	}
	plain := segments(mix(t), hertz, hertz/50)
	for name, tt := range map[string]struct {
		rate, chunk int
		through     func([]int16) []int16
	}{
		"16 kHz": {16_000, 320, nil}, "48 kHz": {48_000, 960, nil}, "24 kHz": {24_000, 480, nil}, "44.1 kHz": {44_100, 882, nil},
		"8 kHz": {8000, 160, nil},
		"µ-law": {8000, 160, law(pcm.ULaw)}, "A-law": {8000, 160, law(pcm.ALaw)},
		"odd chunks": {24_000, 77, nil}, "long chunks": {16_000, 2001, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := pcm.NewResampler(hertz, tt.rate)
			testkit.Must(t, err)
			sound := r.Process(mix(t))
			if tt.through != nil {
				sound = tt.through(sound)
			}
			got := segments(sound, tt.rate, tt.chunk)
			near(t, got, []segment{{500, 3550}, {5700, 8240}}, 100)
			near(t, got, plain, 2*window*1000/hertz) // the same network serves the telephone
		})
	}
}

func near(t *testing.T, got, want []segment, within int64) {
	t.Helper()
	far := len(got) != len(want)
	for i := 0; i < len(want) && !far; i++ {
		from, to := got[i].from-want[i].from, got[i].to-want[i].to
		far = max(from, -from, to, -to) > within
	}
	if far {
		t.Errorf("%v, want %v within %d ms", got, want, within)
	}
}

// TestOtherSound has what is loud and no speech, each for five seconds.
func TestOtherSound(t *testing.T) {
	t.Parallel()
	const loud, soft = 5800, 58 // white noise of -15 and -55 dBFS
	for name, sound := range map[string]func(at int, noise float64) float64{
		"silence":       func(int, float64) float64 { return 0 },
		"noise":         func(_ int, noise float64) float64 { return loud * noise },
		"soft noise":    func(_ int, noise float64) float64 { return soft * noise },
		"clicks":        func(at int, noise float64) float64 { return 5*noise + 30_000*float64(1-min(1, at%8000)) },
		"knocks":        func(at int, noise float64) float64 { return loud * noise * math.Exp(-float64(at%8000)/150) },
		"bursts":        func(at int, noise float64) float64 { return loud * noise * float64(at/3200%4/3) },
		"coughs":        func(at int, noise float64) float64 { return loud * noise * math.Exp(-float64(at%24_000)/1600) },
		"a tone":        func(at int, _ float64) float64 { return 8000 * math.Sin(float64(at)*2*math.Pi*440/hertz) },
		"a dial signal": func(at int, _ float64) float64 { return 8000 * math.Sin(float64(at)*0.17) * float64(at/6400%2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
			samples := make([]int16, 5*hertz)
			for i := range samples {
				samples[i] = int16(max(math.MinInt16, min(math.MaxInt16, sound(i, random.NormFloat64()))))
			}
			testkit.Equal(t, len(segments(samples, hertz, hertz/50)), 0, "segments of speech")
		})
	}
}

// TestBegin begins anew in the middle of a word, which is heard at once, and with thresholds at the ends of the range.
func TestBegin(t *testing.T) {
	t.Parallel()
	sound := mix(t)
	for name, tt := range map[string]struct {
		threshold float64
		spoken    int64 // 128 ms after the second beginning
	}{"usual": {0.5, 128}, "eager": {0, 128}, "deaf": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New()
			d.Begin(tt.threshold)
			spoken, _ := d.Hear(sound[3*window:40*window], hertz)
			testkit.Equal(t, spoken > 0, tt.spoken > 0, "speech until the middle of a sentence")
			d.Begin(tt.threshold)
			spoken, quiet := d.Hear(sound[40*window:44*window], hertz)
			testkit.Equal(t, []int64{spoken, quiet}, []int64{tt.spoken, 0}, "after a word")
		})
	}
}

// TestOddSound has sound that no client can send by the rules.
func TestOddSound(t *testing.T) {
	t.Parallel()
	d, sound := New(), mix(t)
	for _, rate := range []int{0, -1, 15_999, math.MaxInt, math.MinInt} {
		if spoken, quiet := d.Hear(sound, rate); spoken != 0 || quiet != 0 {
			t.Errorf("at %d Hz: %d, %d", rate, spoken, quiet)
		}
	}
	d.Hear(nil, hertz)
	if spoken, _ := d.Hear(sound[:3*hertz], hertz); spoken == 0 {
		t.Error("then it hears no speech")
	}
	d.Begin(math.NaN())
	spoken, _ := d.Hear(sound[:3*hertz], hertz)
	testkit.Equal(t, spoken, 0, "with a threshold that is no number")
}

func TestAllocations(t *testing.T) {
	d, sound := New(), mix(t)
	testkit.Equal(t, testing.AllocsPerRun(100, func() { d.Hear(sound[:960], 48_000) }), 0, "allocations for a packet")
}

func BenchmarkHear(b *testing.B) {
	d, sound, at := New(), mix(b), 0
	b.ReportAllocs()
	for b.Loop() {
		d.Hear(sound[at:at+window], hertz)
		at = (at + window) % (len(sound) - window)
	}
}
