package transcode

import (
	"fmt"
	"sync"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

// maxGap is the longest gap in a stream that is filled, by its clock. Opus sends a packet at least every 400 ms while
// nobody speaks (DTX); after a longer gap the stream had stopped, and nothing is missing.
const maxGap = 480 * media.ClockRate / 1000

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
		r.fill(r.samples(gap), step > 1)
	}
	before := len(r.out)
	err := r.decode(p)
	if err != nil {
		r.out = r.out[:before]
		r.fill(r.rate/50, true)
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
	r.started = true
	r.source, r.format = p.Source, p.Format
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
	if p.Part == nil && len(p.Payload) != p.Format.Frame() {
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

// fill appends n samples in place of missing ones: sound goes on if packets were lost, and silence if none were sent.
func (r *Reader) fill(n int, lost bool) {
	if lost && r.decoder != nil {
		r.out = append(r.out, r.decoder.Conceal(n)...)
		return
	}
	r.out = append(r.out, make([]int16, n)...)
}

// Skip tells the Reader that n samples of silence were put where packets were expected: those are not missing when the
// stream goes on.
func (r *Reader) Skip(n int) { r.next += uint32(n * media.ClockRate / r.rate) }

// ToOpus returns a Sink for a side that speaks Opus: packets of Opus pass untouched, others are encoded. As with the
// sinks of realtime/rtc, of two packets that are encoded at the same time one is dropped, so that no writer waits.
func ToOpus(sink media.Sink) media.Sink { return &encoded{sink: sink} }

type encoded struct {
	sink media.Sink

	turn    sync.Mutex // only tried, never waited for
	source  uint32
	rate    int
	encoder *opus.Encoder
	samples []int16
	packet  media.Packet
}

func (e *encoded) WriteAudio(p *media.Packet) error {
	if p.Format == (media.Format{}) {
		return e.sink.WriteAudio(p)
	}
	if !e.turn.TryLock() {
		return nil
	}
	defer e.turn.Unlock()
	if e.encoder == nil || p.Source != e.source || p.Format.Rate != e.rate {
		encoder, err := opus.NewEncoder(p.Format.Rate)
		if err != nil {
			return fmt.Errorf("encode audio: %w", err)
		}
		e.encoder = encoder
		e.source, e.rate = p.Source, p.Format.Rate
	}
	e.samples = p.Format.Encoding.Decode(e.samples[:0], p.Payload)
	payload, err := e.encoder.Encode(e.samples)
	if err != nil {
		return fmt.Errorf("encode audio: %w", err)
	}
	e.packet = *p
	e.packet.Format, e.packet.Payload = media.Format{}, payload
	return e.sink.WriteAudio(&e.packet)
}
