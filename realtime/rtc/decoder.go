package rtc

import (
	"errors"
	"fmt"
	"math"

	"github.com/pion/opus"
)

// MaxFrame is the largest number of samples that one Opus packet holds: 120 ms at 48 kHz (RFC 6716, 2.1.4).
const MaxFrame = 5760

// Decoder turns Opus packets into 48 kHz mono samples, for metering and detecting speech. It keeps state between
// packets, so each stream needs its own, and it is not safe for concurrent use. It conceals no losses: callers add
// silence themselves.
type Decoder struct{ opus opus.Decoder }

// NewDecoder makes a Decoder, which takes about 200 KB.
func NewDecoder() (*Decoder, error) {
	d, err := opus.NewDecoderWithOutput(opusClockRate, 1)
	if err != nil {
		return nil, fmt.Errorf("make opus decoder: %w", err)
	}
	return &Decoder{opus: d}, nil
}

// Decode decodes one Opus packet into pcm and returns the number of samples. pcm must have room for MaxFrame samples.
// An empty or malformed payload is an error; the decoder stays usable.
func (d *Decoder) Decode(payload []byte, pcm []int16) (n int, err error) {
	if len(payload) == 0 {
		return 0, errors.New("decode opus: empty packet")
	}
	if len(pcm) < MaxFrame {
		return 0, fmt.Errorf("decode opus: room for %d samples, need %d", len(pcm), MaxFrame)
	}
	if n, err = d.opus.DecodeToInt16(payload, pcm); err != nil {
		return 0, fmt.Errorf("decode opus: %w", err)
	}
	return n, nil
}

// Silence is what Level returns for digital silence, in dBFS: the 127 of RFC 6464.
const Silence = -127.0

// Level returns the root mean square of pcm in dBFS: 0 for a full-scale square wave, Silence for digital silence or no
// samples.
func Level(pcm []int16) float64 {
	var sum float64
	for _, s := range pcm {
		v := float64(s) / 32768
		sum += v * v
	}
	if sum == 0 {
		return Silence
	}
	return max(Silence, 10*math.Log10(sum/float64(len(pcm))))
}
