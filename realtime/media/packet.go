package media

import (
	"bytes"
	"time"
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
	// Payload is one Opus packet.
	Payload []byte
}

// Clone returns a copy with a payload of its own.
func (p *Packet) Clone() Packet {
	c := *p
	c.Payload = bytes.Clone(p.Payload)
	return c
}

// Sink takes a stream of packets. It must not keep the packet or its payload.
type Sink interface {
	WriteAudio(packet *Packet) error
}
