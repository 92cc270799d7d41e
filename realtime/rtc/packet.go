package rtc

import (
	"encoding/binary"
	"time"

	"voicebridge/realtime/media"
)

const (
	// window is the number of packets after a splice for which a late packet can be told from a new one; later,
	// sequence numbers may have wrapped.
	window = 1 << 10
	// frameTime and frameStep are the usual Opus frame: 20 ms, 960 samples.
	frameTime = media.FrameTime
	frameStep = media.FrameStep
)

// renumber shifts sequence numbers so that a splice leaves no gap that looks like loss. Loss and reordering on either
// side of it are kept. The zero value shifts nothing.
type renumber struct {
	shift     uint16
	last      uint16 // highest number given out
	first     uint16 // the first number after the splice
	recent    uint16 // packets since the splice, up to window
	started   bool
	spliced   bool // the next packet follows the last one given out
	newSource bool // and comes from a source other than the current one
}

// hold notes that a packet of the source is not sent, so that the next one takes its number.
func (r *renumber) hold() { r.spliced = true }

// restart notes that another source takes over.
func (r *renumber) restart() { r.spliced, r.newSource = true, true }

// next returns the number to send a packet under, or false if the packet is too late because it precedes a past splice.
func (r *renumber) next(sequence uint16) (uint16, bool) {
	switch {
	case !r.started:
		r.started, r.last = true, sequence
		r.begin(sequence)
	case r.spliced:
		if before := r.last - r.shift; !r.newSource && before-sequence < window {
			return 0, false
		}
		r.shift = r.last + 1 - sequence
		r.begin(sequence)
	}
	if r.recent < window {
		r.recent++
		if newer(r.first, sequence) {
			return 0, false
		}
	}
	out := sequence + r.shift
	if newer(out, r.last) {
		r.last = out
	}
	return out, true
}

func (r *renumber) begin(sequence uint16) {
	r.first, r.recent, r.spliced, r.newSource = sequence, 0, false, false
}

// newer compares sequence numbers that may have wrapped (RFC 1982).
func newer(a, b uint16) bool { return a != b && a-b < 1<<15 }

// splice keeps sequence numbers and timestamps of an outgoing stream continuous when its source changes. It is not safe
// for concurrent use.
type splice struct {
	sequence renumber
	ssrc     uint32 // SSRC of the source
	shift    uint32 // added to timestamps
	lastTime uint32 // timestamp of the newest packet sent
	lastAt   time.Time
}

// next returns the sequence number and timestamp to send a packet under. The first packet of all has the number 1,
// that of a new source follows the last one sent, by the time elapsed in whole frames, at least one. It returns false
// for a late packet, as renumber does.
func (s *splice) next(ssrc uint32, sequence uint16, timestamp uint32, now time.Time) (uint16, uint32, bool) {
	switch {
	case !s.sequence.started:
		// It begins at 1: a remote that misses the last packets before the numbers wrap can decrypt nothing that
		// follows (RFC 3711, 3.3.1), and the numbers of a source that has gone on for long are anywhere.
		s.sequence = renumber{started: true, spliced: true, newSource: true}
	case ssrc != s.ssrc:
		s.sequence.restart()
		frames := max(1, (now.Sub(s.lastAt)+frameTime/2)/frameTime)
		s.shift = s.lastTime + uint32(frames)*frameStep - timestamp // wraps as timestamps do
	}
	s.ssrc = ssrc
	before := s.sequence.last
	out, ok := s.sequence.next(sequence)
	if !ok {
		return 0, 0, false
	}
	stamp := timestamp + s.shift
	if newer(out, before) {
		s.lastTime, s.lastAt = stamp, now
	}
	return out, stamp, true
}

// header holds the fields in use of an RTP header (RFC 3550, 5.1).
type header struct {
	marker    bool
	sequence  uint16
	timestamp uint32
	ssrc      uint32
}

// parsePacket reads one RTP packet and returns its payload, a part of b, without padding. It returns false if b is not
// an RTP packet. It allocates nothing, unlike the parser of pion/rtp, which makes slices for CSRCs and extensions.
func parsePacket(b []byte) (header, []byte, bool) {
	var h header
	if len(b) < 12 || b[0]>>6 != 2 {
		return h, nil, false
	}
	h.marker = b[1]&0x80 != 0
	h.sequence = binary.BigEndian.Uint16(b[2:])
	h.timestamp = binary.BigEndian.Uint32(b[4:])
	h.ssrc = binary.BigEndian.Uint32(b[8:])
	padded, extended, csrcs := b[0]&0x20 != 0, b[0]&0x10 != 0, int(b[0]&0x0f)
	at := 12 + 4*csrcs
	if at > len(b) {
		return h, nil, false
	}
	payload := b[at:]
	if extended {
		if len(payload) < 4 {
			return h, nil, false
		}
		size := 4 * int(binary.BigEndian.Uint16(payload[2:]))
		if 4+size > len(payload) {
			return h, nil, false
		}
		payload = payload[4+size:]
	}
	if padded {
		if len(payload) == 0 {
			return h, nil, false
		}
		n := int(payload[len(payload)-1])
		if n == 0 || n > len(payload) {
			return h, nil, false
		}
		payload = payload[:len(payload)-n]
	}
	return h, payload, true
}
