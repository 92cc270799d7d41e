package opus

import (
	"errors"
	"fmt"

	"github.com/thesyncim/gopus"
)

// longest is the longest packet in ms (RFC 6716, 2.1.4).
const longest = 120

// Decoder turns the packets of one stream into samples. It keeps state between packets, and is not safe for concurrent
// use.
type Decoder struct {
	opus    *gopus.Decoder
	rate    int
	pcm     []int16
	copied  []float32 // of a lost packet; nil before the first one
	out     []int16   // of several
	conceal concealer
}

// NewDecoder makes a Decoder, which takes about 300 KB. Rates are 8, 12, 16, 24 and 48 kHz.
func NewDecoder(rate int) (*Decoder, error) {
	if rate > 48000 {
		return nil, fmt.Errorf("make opus decoder: %d Hz", rate)
	}
	d, err := gopus.NewDecoder(gopus.DecoderConfig{SampleRate: rate, Channels: 1})
	if err != nil {
		return nil, fmt.Errorf("make opus decoder: %w", err)
	}
	return &Decoder{opus: d, rate: rate, pcm: make([]int16, rate*longest/1000), conceal: newConcealer(rate)}, nil
}

// Decode returns the samples of a packet, valid until the next call. Stereo is mixed down. An empty or malformed packet
// is an error; the decoder stays usable.
func (d *Decoder) Decode(packet []byte) ([]int16, error) {
	if len(packet) == 0 {
		return nil, errors.New("decode opus: empty packet")
	}
	n, err := d.opus.DecodeInt16(packet, d.pcm)
	if err != nil {
		return nil, fmt.Errorf("decode opus: %w", err)
	}
	pcm := d.pcm[:n]
	d.conceal.heard(pcm)
	return pcm, nil
}

// Conceal returns samples in the place of lost ones, valid until the next call: what was heard last goes on and fades to
// silence within 60 ms.
func (d *Decoder) Conceal(samples int) []int16 { return d.conceal.next(samples) }

// HasCopy reports whether a packet has a copy, of lower quality, of the one before it (in-band FEC, RFC 6716, 4.2.4).
func HasCopy(packet []byte) bool {
	const silkOrHybrid = 16 // and below, of the configurations of section 3.1
	if len(packet) < 2 || packet[0]>>3 >= silkOrHybrid || packet[0]&3 > 1 {
		return false // of several frames of different sizes it is not looked for
	}
	frames := 1 // of SILK, in the first frame
	if config := packet[0] >> 3; config < 12 {
		frames = max(1, int(config%4))
	}
	return packet[1]>>(7-frames)&1 == 1
}

// Recover returns the samples that were lost before a packet, which has a copy of the last of them, valid until the
// next call. Decode that packet next.
func (d *Decoder) Recover(next []byte, samples int) []int16 {
	frame := d.rate * frameMS / 1000
	d.out = d.out[:0]
	if samples > frame {
		d.out = append(d.out, d.Conceal(samples-frame)...)
	}
	if d.copied == nil {
		d.copied = make([]float32, frame)
	}
	n, err := d.opus.DecodeWithFEC(next, d.copied, true)
	if err != nil || n != frame || samples < frame {
		return append(d.out, d.Conceal(min(samples, frame))...)
	}
	copied := d.pcm[:frame]
	for i, s := range d.copied {
		copied[i] = int16(max(-1<<15, min(1<<15-1, s*(1<<15))))
	}
	d.conceal.heard(copied)
	return append(d.out, copied...)
}
