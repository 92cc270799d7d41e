package rtc

import "encoding/binary"

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
