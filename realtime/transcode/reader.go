package transcode

import (
	"fmt"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

// maxGap is the longest gap in a stream that is filled, by its clock. Opus sends a packet at least every 400 ms while
// nobody speaks (DTX), of which one may be lost; after a longer gap the stream had stopped, and nothing is missing.
const maxGap = media.ClockRate

// Reader turns a stream of packets of any format into samples. It is not safe for concurrent use.
type Reader struct {
	rate     int
	started  bool
	source   uint32
	format   media.Format
	sequence uint16
	next     uint32 // the timestamp that follows what was returned

	decoder   *opus.Decoder  // for Opus
	resampler *pcm.Resampler // for other formats at another rate; nil if there is none
	raw, out  []int16
}

// NewReader returns a Reader whose samples have the given rate: 8, 16, 24 or 48 kHz.
func NewReader(rate int) *Reader { return &Reader{rate: rate} }

// Read returns the samples of a packet, with what came to be missing before it, valid until the next call. Late packets
// have none. A packet that cannot be read sounds as if it were lost; the Reader stays usable.
func (r *Reader) Read(p *media.Packet) ([]int16, error) {
	if !r.started || p.Source != r.source || p.Format != r.format {
		if err := r.begin(p); err != nil {
			return nil, err
		}
	}
	r.out = r.out[:0]
	step := p.Sequence - r.sequence
	if step == 0 || step >= 1<<15 {
		return nil, nil
	}
	r.sequence = p.Sequence
	if gap := p.Timestamp - r.next; gap > 0 && gap <= maxGap {
		r.fill(r.samples(gap))
	}
	before := len(r.out)
	err := r.decode(p)
	if err != nil {
		r.out = r.out[:before]
		r.fill(r.rate / 50)
	}
	r.next = p.Timestamp + uint32((len(r.out)-before)*media.ClockRate/r.rate)
	return r.out, err
}

// begin makes a packet the first one of a stream.
func (r *Reader) begin(p *media.Packet) (err error) {
	r.decoder, r.resampler = nil, nil
	switch {
	case p.Format == media.Format{}:
		r.decoder, err = opus.NewDecoder(r.rate)
	case p.Format.Rate != r.rate:
		r.resampler, err = pcm.NewResampler(p.Format.Rate, r.rate)
	}
	if err != nil {
		return fmt.Errorf("read a stream at %d Hz: %w", p.Format.Rate, err)
	}
	r.started, r.source, r.format = true, p.Source, p.Format
	r.sequence, r.next = p.Sequence-1, p.Timestamp
	return nil
}

// decode appends the samples of a packet.
func (r *Reader) decode(p *media.Packet) error {
	if r.decoder != nil {
		samples, err := r.decoder.Decode(p.Payload)
		r.out = append(r.out, samples...)
		return err
	}
	if len(p.Payload) != p.Format.Frame() {
		return fmt.Errorf("read packet: %d bytes, want %d", len(p.Payload), p.Format.Frame())
	}
	if r.resampler == nil {
		r.out = p.Format.Encoding.Decode(r.out, p.Payload)
		return nil
	}
	r.raw = p.Format.Encoding.Decode(r.raw[:0], p.Payload)
	r.out = append(r.out, r.resampler.Process(r.raw)...)
	return nil
}

// samples returns how many samples a time by the stream's clock has.
func (r *Reader) samples(time uint32) int { return int(time) * r.rate / media.ClockRate }

// fill appends n samples in place of missing ones. What was heard last fades to silence, whether packets were lost or none
// were sent: to break off would click.
func (r *Reader) fill(n int) {
	if r.decoder != nil {
		r.out = append(r.out, r.decoder.Conceal(n)...)
		return
	}
	r.out = append(r.out, make([]int16, n)...)
}

// Skip tells the Reader that n samples of silence were put where packets were expected: those are not missing when the
// stream goes on.
func (r *Reader) Skip(n int) { r.next += uint32(n * media.ClockRate / r.rate) }
