package media

import (
	"bytes"
	"sync/atomic"
	"time"

	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

// What a stream's times count, and how long its packets usually are.
const (
	// ClockRate is how much a Timestamp grows in a second, whatever the format: Opus's clock (RFC 7587, 4.1).
	ClockRate = 48000
	// FrameTime is the length of a usual packet, and FrameStep the same by the stream's clock.
	FrameTime = 20 * time.Millisecond
	FrameStep = ClockRate / 50
)

// Packet is a piece of a stream of audio.
type Packet struct {
	// Source names the stream among all that the process receives. Numbers and times go on within one source only.
	Source uint32
	// Sequence grows by one from packet to packet, but for those that were lost.
	Sequence uint16
	// Timestamp is the time of the first sample by the stream's clock, see ClockRate. It also grows while nothing is
	// sent.
	Timestamp uint32
	// Marker begins a stretch of sound after a pause.
	Marker bool
	// Format is how Payload is written.
	Format  Format
	Payload []byte
	// Came is when it came, for one that may have been held up since; zero means that it was not.
	Came time.Time
	// Part is set for an [Ahead], and says what the packet is part of. Its payload has any number of samples.
	Part *Part
}

// Pauses reports whether the sender sends next to nothing until it has something to say (Opus DTX): what does not come
// then is silence, and neither late nor lost.
func (p *Packet) Pauses() bool { return p.Format == Format{} && opus.IsEmpty(p.Payload) }

// Part is a part of an answer.
type Part struct {
	Response, Item string // their ids, as the sender knows them
	Content        int    // the index in the item
	Last           bool   // there is no more of it: such a packet has no payload
}

// Format is how a packet's sound is written. The zero value is Opus; packets of any other format are FrameTime long.
type Format struct {
	// Rate is the number of samples in a second, zero for Opus.
	Rate     int
	Encoding pcm.Encoding
}

// Frame returns how many bytes a packet's payload has, zero for Opus, which varies.
func (f Format) Frame() int { return f.Rate / 50 * f.Encoding.Size() }

// Lasts returns how long bytes of sound last, in any format but Opus.
func (f Format) Lasts(bytes int) time.Duration {
	return time.Duration(bytes) * FrameTime / time.Duration(f.Frame())
}

var sources atomic.Uint32

// NewSource returns a name for a stream, see Packet.Source.
func NewSource() uint32 { return sources.Add(1) }

// Clone returns a copy with a payload of its own.
func (p *Packet) Clone() Packet {
	c := *p
	c.Payload = bytes.Clone(p.Payload)
	return c
}

// Ahead is a Sink whose remote plays answers by its own clock: packets for it may come before they are heard.
type Ahead interface {
	Sink
	// Ahead names the remote, 0 if it has no clock of its own, and says whether there is room for more than what is
	// due.
	Ahead() (remote uint32, room bool)
}

// Faster is a Sink whose remote counts the sound that it is sent, and not the time between.
type Faster interface {
	Sink
	// Faster reports whether it takes more than what is due.
	Faster() bool
}

// TakesFaster returns what a sink says if it is a [Faster], and false otherwise.
func TakesFaster(sink Sink) bool {
	f, ok := sink.(Faster)
	return ok && f.Faster()
}

// Sink takes a stream of packets. It must not keep the packet or its payload.
type Sink interface {
	WriteAudio(packet *Packet) error
}
