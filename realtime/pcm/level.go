package pcm

import "math"

// Silence is what Level returns for digital silence, in dBFS: the 127 of RFC 6464.
const Silence = -127.0

// Level returns the root mean square of samples in dBFS: 0 for a full-scale square wave, Silence for digital silence or
// no samples.
func Level(samples []int16) float64 {
	var sum float64
	for _, s := range samples {
		v := float64(s) / 32768
		sum += v * v
	}
	if sum == 0 {
		return Silence
	}
	return max(Silence, 10*math.Log10(sum/float64(len(samples))))
}
