package pcm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"voicebridge/internal/testkit"
)

// unusual are rates at which voices speak, to be heard at 48 kHz.
var unusual = []int{11025, 22050, 44100}

// tone is a second of a sine of half of full scale.
func tone(rate int, hertz float64) []int16 {
	samples := make([]int16, rate)
	for i := range samples {
		samples[i] = int16(math.Round(16384 * math.Sin(2*math.Pi*hertz*float64(i)/float64(rate))))
	}
	return samples
}

// gain returns in dB how much of a tone comes out, at whatever frequency.
func gain(t *testing.T, from, to int, hertz float64) float64 {
	t.Helper()
	out := resample(t, from, to, tone(from, hertz), from)
	return Level(out[to/10:]) - Level(tone(from, hertz))
}

func resample(t *testing.T, from, to int, samples []int16, chunk int) (out []int16) {
	t.Helper()
	r, err := NewResampler(from, to)
	testkit.Must(t, err)
	for part := range slices.Chunk(samples, chunk) {
		out = append(out, r.Process(part)...)
	}
	return out
}

// TestResponse measures the filter between all rates: it keeps what both rates can express, and nothing folds back or
// is mirrored. -v shows the response.
func TestResponse(t *testing.T) {
	t.Parallel()
	for _, from := range slices.Concat(Rates, unusual) {
		for _, to := range Rates {
			if slices.Contains(unusual, from) && to != 48000 {
				continue
			}
			if from == to {
				continue
			}
			t.Run(fmt.Sprintf("%d to %d", from, to), func(t *testing.T) {
				t.Parallel()
				lower := float64(min(from, to))
				for _, x := range []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.1, 1.5} {
					if x*lower > float64(from)/2-1 {
						continue
					}
					got := gain(t, from, to, x*lower)
					t.Logf("%6.0f Hz %7.2f dB", x*lower, got)
					if x <= 0.4 && math.Abs(got) > 0.1 {
						t.Errorf("%.0f Hz is changed by %.2f dB", x*lower, got)
					}
					if x >= 0.6 && got > -60 {
						t.Errorf("%.0f Hz folds back with %.1f dB", x*lower, got)
					}
				}
				// What upsampling must not leave: the mirror of a tone above the lower rate's half.
				if to > from {
					out := resample(t, from, to, tone(from, 0.3*lower), from)[to/10:]
					if mirror := power(out, 0.7*lower/float64(to)); mirror > power(out, 0.3*lower/float64(to))-60 {
						t.Errorf("the mirror of a tone has %.1f dB", mirror)
					}
				}
			})
		}
	}
}

// power returns how much of one frequency, in cycles per sample, is in samples, in dB.
func power(samples []int16, frequency float64) float64 {
	var re, im float64
	for i, s := range samples {
		window := 1 - math.Cos(2*math.Pi*float64(i)/float64(len(samples))) // Hann
		sin, cos := math.Sincos(2 * math.Pi * frequency * float64(i))
		re += float64(s) * cos * window
		im += float64(s) * sin * window
	}
	return 10 * math.Log10(re*re+im*im+1)
}

func TestResampler(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]int16, 4800)
	for i := range noise {
		noise[i] = int16(random.Uint32())
	}
	for _, from := range slices.Concat(Rates, unusual) {
		for _, to := range Rates {
			if slices.Contains(unusual, from) && to != 48000 {
				continue
			}
			whole := resample(t, from, to, noise, len(noise))
			testkit.Equal(t, len(whole), (len(noise)*to+from-1)/from, "%d to %d Hz: samples of %d", from, to, len(noise))
			for _, chunk := range []int{1, 7, 160, 481} {
				if !slices.Equal(resample(t, from, to, noise, chunk), whole) {
					t.Errorf("%d to %d Hz: chunks of %d samples make a difference", from, to, chunk)
				}
			}
			// A constant stays one, at full scale too.
			loud := resample(t, from, to, slices.Repeat([]int16{math.MaxInt16}, from/10), from)
			if got := loud[len(loud)-1]; got < math.MaxInt16-1 {
				t.Errorf("%d to %d Hz: full scale became %d", from, to, got)
			}
		}
	}
	for _, rates := range [][2]int{{22051, 48000}, {4000, 8000}, {48000, 192000}, {48000, 0}, {-1, 8000}} {
		if _, err := NewResampler(rates[0], rates[1]); err == nil {
			t.Errorf("%v is no error", rates)
		}
	}
}
