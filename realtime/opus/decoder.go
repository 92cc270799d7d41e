package opus

import (
	"errors"
	"fmt"

	"github.com/pion/opus"
)

// longest is the longest packet in ms (RFC 6716, 2.1.4).
const longest = 120

// Decoder turns the packets of one stream into samples. It keeps state between packets, and is not safe for concurrent
// use.
type Decoder struct {
	opus    opus.Decoder
	rate    int
	pcm     []int16
	conceal concealer
}

// NewDecoder makes a Decoder, which takes about 200 KB. Rates are 8, 12, 16, 24 and 48 kHz.
func NewDecoder(rate int) (*Decoder, error) {
	d, err := opus.NewDecoderWithOutput(rate, 1)
	if err != nil {
		return nil, fmt.Errorf("make opus decoder: %w", err)
	}
	return &Decoder{opus: d, rate: rate, pcm: make([]int16, rate*longest/1000), conceal: newConcealer(rate)}, nil
}

// Decode returns the samples of a packet, valid until the next call. Stereo is mixed down. A malformed packet is an error;
// the decoder stays usable.
func (d *Decoder) Decode(packet []byte) ([]int16, error) {
	if Duration(packet) == 0 {
		return nil, errors.New("decode opus: malformed packet")
	}
	if IsEmpty(packet) {
		return d.Conceal(Duration(packet) * d.rate / ClockRate), nil
	}
	n, err := d.opus.DecodeToInt16(packet, d.pcm)
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
