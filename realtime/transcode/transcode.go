package transcode

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

// maxGap is the longest gap in a stream that is filled, by its clock. Opus sends a packet at least every 400 ms while
// nobody speaks (DTX), of which one may be lost; after a longer gap the stream had stopped, and nothing is missing.
const maxGap = time.Second

// mostAtOnce is how much more may be filled than time has gone on: a silence in which Opus sends nothing.
const mostAtOnce = 400 * time.Millisecond

// patience is for how many packets after a lost one a patient Reader waits for it, 200 ms: it may be repeated, even
// if others were lost with it. It does not wait for what is lost for longer than that at once.
const patience = 10

// Reader turns a stream of packets of any format into samples. It is not safe for concurrent use.
type Reader struct {
	rate     int
	patient  bool
	started  bool
	source   uint32
	format   media.Format
	sequence uint16
	next     uint32         // the timestamp that follows what was returned
	held     []media.Packet // that came before the one that follows what was returned, in order
	filled   media.Allowance
	pause    bool // nothing is filled before the next packet

	decoder   *opus.Decoder  // for Opus
	resampler *pcm.Resampler // for other formats at another rate; nil if there is none
	raw, out  []int16
}

// NewReader returns a Reader whose samples have the given rate: 8, 16, 24 or 48 kHz.
func NewReader(rate int) *Reader {
	return &Reader{rate: rate, filled: media.Allowance{Most: mostAtOnce}}
}

// NewPatientReader returns a Reader for who does not play the sound: while a packet of Opus is missing that may
// still come, those behind it wait.
func NewPatientReader(rate int) *Reader {
	r := NewReader(rate)
	r.patient = true
	return r
}

// Read returns the samples of a packet, with what came to be missing before it, valid until the next call. A packet
// that waits for another one has none: they follow with that one, or once it has not come. Late packets have none
// either. A packet that cannot be read sounds as if it were lost; the Reader stays usable.
func (r *Reader) Read(p *media.Packet) (samples []int16, err error) {
	r.out = r.out[:0]
	if !r.started || p.Source != r.source || p.Format != r.format {
		for i := range r.held {
			err = errors.Join(err, r.take(&r.held[i]))
		}
		if err := r.begin(p); err != nil {
			return nil, err
		}
	}
	switch ahead := p.Sequence - r.sequence; {
	case ahead == 0 || ahead >= 1<<15:
		return r.out, err
	case len(r.held) == 0 && (ahead == 1 || !r.patient):
		err = errors.Join(err, r.take(p))
		return r.out, err
	}
	at, again := slices.BinarySearchFunc(r.held, p.Sequence, func(h media.Packet, sequence uint16) int {
		return int(int16(h.Sequence - sequence)) // serial arithmetic
	})
	if !again {
		r.held = slices.Insert(r.held, at, p.Clone())
	}
	for len(r.held) > 0 && !r.waits() {
		err = errors.Join(err, r.take(&r.held[0]))
		r.held = slices.Delete(r.held, 0, 1)
	}
	return r.out, err
}

// waits reports whether what is missing before the first packet that is held may still come, and is worth it.
func (r *Reader) waits() bool {
	first, last := &r.held[0], &r.held[len(r.held)-1]
	missing := first.Sequence - r.sequence - 1
	if missing == 0 || r.decoder == nil || missing == 1 && opus.HasCopy(first.Payload) {
		return false
	}
	return missing < patience && last.Sequence-r.sequence-1 < patience
}

// Flush returns the samples of packets that wait for another one, as none will come: valid until the next call.
func (r *Reader) Flush() []int16 {
	r.out = r.out[:0]
	for i := range r.held {
		_ = r.take(&r.held[i]) // sounds as if it were lost
	}
	r.held = nil
	return r.out
}

// Pause has nothing filled before the next packet. It is for sound that is played as it comes: the player has been
// silent meanwhile, and would be so twice.
func (r *Reader) Pause() { r.pause = true }

// End returns the timestamp that follows what was returned.
func (r *Reader) End() uint32 { return r.next }

// take appends the samples of a packet, with what is missing before it.
func (r *Reader) take(p *media.Packet) error {
	step := p.Sequence - r.sequence
	r.sequence = p.Sequence
	gap := time.Duration(p.Timestamp-r.next) * time.Second / media.ClockRate
	if gap > maxGap || r.pause {
		gap = 0
	}
	r.pause = false
	if gap = r.filled.Take(time.Now(), gap); gap > 0 {
		r.fill(int(gap*time.Duration(r.rate)/time.Second), step > 1, p.Payload)
	}
	before := len(r.out)
	err := r.decode(p)
	if err != nil {
		r.out = r.out[:before]
		r.fill(r.rate/50, true, nil)
	}
	r.next = p.Timestamp + uint32((len(r.out)-before)*media.ClockRate/r.rate)
	return err
}

// begin makes a packet the first one of a stream.
func (r *Reader) begin(p *media.Packet) (err error) {
	r.decoder, r.resampler, r.held = nil, nil, nil
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

// fill appends n samples in place of missing ones before a packet, which may have a copy of the last of them. What was
// heard last fades to silence, whether packets were lost or none were sent: to break off would click.
func (r *Reader) fill(n int, lost bool, next []byte) {
	switch {
	case r.decoder == nil:
		r.out = append(r.out, make([]int16, n)...)
	case lost && opus.HasCopy(next):
		r.out = append(r.out, r.decoder.Recover(next, n)...)
	default:
		r.out = append(r.out, r.decoder.Conceal(n)...)
	}
}

// Fill returns n samples in the place of packets that were expected, valid until the next call: those are not missing
// when the stream goes on.
func (r *Reader) Fill(n int) []int16 {
	r.out = r.out[:0]
	r.fill(n, false, nil)
	r.next += uint32(n * media.ClockRate / r.rate)
	return r.out
}

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
