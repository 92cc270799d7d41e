package pcm

import (
	"fmt"
	"math"
)

// Rates are the usual sample rates, in Hz.
var Rates = []int{8000, 16000, 24000, 48000}

// Resampler converts samples from one rate to another. It keeps what it needs of the past, so each stream has its own,
// and it is not safe for concurrent use.
//
// It is one FIR filter: a low-pass at the higher common rate, of which only the taps are computed that meet a sample
// (polyphase). Up to 0.4 of the lower rate sound is unchanged within 0.1 dB; what would fold back is 60 dB down from
// 0.6 of it on. It delays by 16 samples of the lower rate: 0.7 ms at 24 kHz.
type Resampler struct {
	up, down int         // the ratio, in lowest terms
	phases   [][]float32 // the taps of each phase, the newest sample's last
	history  []float32   // samples that were not used up, the first of them at position
	phase    int         // of the next sample to be made
	out      []int16
}

// span is the length of the filter in samples of the lower rate.
const span = 32

// maxRatio limits the numbers of a ratio, in lowest terms: 11,025 Hz to 48,000 has 147 to 640.
const maxRatio = 640

// NewResampler makes a Resampler. Rates below 8 kHz or above 96 kHz are an error, and those whose ratio is none of
// small numbers.
func NewResampler(from, to int) (*Resampler, error) {
	common := gcd(from, to)
	if min(from, to) < 8000 || max(from, to) > 96000 || max(from, to)/common > maxRatio {
		return nil, fmt.Errorf("resample from %d to %d Hz: the usual rates are %v", from, to, Rates)
	}
	r := &Resampler{up: to / common, down: from / common}
	if from == to {
		return r, nil
	}
	widest := max(r.up, r.down)
	taps := (span*widest + r.up - 1) / r.up
	r.phases = make([][]float32, r.up)
	for phase := range r.phases {
		r.phases[phase] = make([]float32, taps)
		for i := range taps {
			// The newest sample is the filter's first tap.
			n := phase + (taps-1-i)*r.up
			r.phases[phase][i] = float32(tap(n, taps*r.up, widest) * float64(r.up))
		}
		normalise(r.phases[phase])
	}
	r.history = make([]float32, taps-1) // silence came before
	return r, nil
}

// tap returns one value of a low-pass of the given length whose cut-off is half of the lower rate: a sinc in a Kaiser
// window.
func tap(n, length, widest int) float64 {
	const beta = 6.0 // 63 dB
	t := float64(n) - float64(length-1)/2
	x := t / float64(widest)
	sinc := 1.0
	if x != 0 {
		sinc = math.Sin(math.Pi*x) / (math.Pi * x)
	}
	edge := 2 * t / float64(length)
	return sinc / float64(widest) * bessel(beta*math.Sqrt(1-edge*edge)) / bessel(beta)
}

// bessel is the modified Bessel function of order zero.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-12; k++ {
		term *= x / 2 / k * x / 2 / k
		sum += term
	}
	return sum
}

// normalise makes taps add up to one, so that a constant stays the same in all phases.
func normalise(taps []float32) {
	var sum float32
	for _, t := range taps {
		sum += t
	}
	for i := range taps {
		taps[i] /= sum
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Process returns what follows at the other rate, valid until the next call. How samples are cut into calls makes no
// difference.
func (r *Resampler) Process(samples []int16) []int16 {
	if r.phases == nil {
		return samples
	}
	for _, s := range samples {
		r.history = append(r.history, float32(s))
	}
	r.out = r.out[:0]
	taps, at := len(r.phases[0]), 0
	for at+taps <= len(r.history) {
		var sum float32
		window := r.history[at : at+taps]
		for i, t := range r.phases[r.phase] {
			sum += t * window[i]
		}
		r.out = append(r.out, clip(sum))
		r.phase += r.down
		at += r.phase / r.up
		r.phase %= r.up
	}
	r.history = r.history[:copy(r.history, r.history[at:])]
	return r.out
}

// clip rounds a sample to 16 bits.
func clip(v float32) int16 {
	return int16(math.Round(float64(max(math.MinInt16, min(math.MaxInt16, v)))))
}
