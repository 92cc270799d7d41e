// Package vad tells speech from other sound, by Silero's network (https://github.com/snakers4/silero-vad, MIT, see
// silero_v6.LICENSE) as plain Go.
package vad

import "voicebridge/realtime/pcm"

const (
	// onset is how many samples of speech make it begin, 96 ms: a click is shorter.
	onset = 3 * window
	// hysteresis is how much less probable than at its onset speech may become.
	hysteresis = 0.15
)

// Detector judges from a caller's sound whether they speak. It is not safe for concurrent use.
type Detector struct {
	network   network
	on, off   float32 // the probabilities from which on speech begins and below which it pauses
	rate      int
	resampler *pcm.Resampler // nil: nothing is heard
	pending   []int16        // that is no window yet

	// In samples: recent speech, or, from onset on, what was spoken with its pauses; silence since.
	spoken, quiet int
}

// New returns a Detector that has heard nothing yet.
func New() *Detector {
	d := &Detector{network: network{weights: load()}, pending: make([]int16, 0, window)}
	d.Begin(0.5)
	return d
}

// Begin forgets what was spoken so far. Speech is what the network takes for it with the probability threshold, from 0
// to 1. The network goes on: in the middle of a word it would not know what it hears.
func (d *Detector) Begin(threshold float64) {
	d.on, d.off = float32(threshold), float32(max(threshold-hysteresis, 0.01))
	d.spoken, d.quiet = 0, 0
}

// Hear takes the next sound, of any length; at a rate that a [pcm.Resampler] does not take nothing is heard. It returns
// for how many ms the caller has been speaking, pauses included, 0 if they are not, and for how many they have been
// silent since.
func (d *Detector) Hear(samples []int16, rate int) (spoken, quiet int64) {
	if rate != d.rate {
		d.rate = rate
		d.resampler, _ = pcm.NewResampler(rate, hertz)
	}
	if d.resampler != nil {
		samples = d.resampler.Process(samples)
	}
	for d.resampler != nil && len(samples) > 0 {
		n := min(len(samples), window-len(d.pending))
		d.pending, samples = append(d.pending, samples[:n]...), samples[n:]
		if len(d.pending) == window {
			d.judge(d.network.step(d.pending))
			d.pending = d.pending[:0]
		}
	}
	if d.spoken < onset {
		return 0, 0
	}
	spoken, quiet = int64(d.spoken+len(d.pending)), int64(d.quiet)
	if quiet > 0 {
		quiet += int64(len(d.pending))
	}
	return spoken * 1000 / hertz, quiet * 1000 / hertz
}

// judge takes the probability that the next window is speech.
func (d *Detector) judge(p float32) {
	limit := d.on
	if d.spoken > 0 && d.quiet == 0 {
		limit = d.off
	}
	d.quiet += window
	if p >= limit {
		d.quiet = 0
	}
	switch {
	case d.spoken >= onset || p >= limit:
		d.spoken += window
	default:
		d.spoken = max(0, d.spoken-window)
	}
}
