package rtc

import "encoding/binary"

// header is what is used of an RTP header (RFC 3550, 5.1).
type header struct {
	marker    bool
	sequence  uint16
	timestamp uint32
	ssrc      uint32
	level     int // RFC 6464, -dBov; noLevel without the extension
}

const noLevel = -1

// parsePacket reads one RTP packet and returns its payload, which lies in b,
// without padding; false says that it is none. levelID is the negotiated id of the audio level, 0 if there
// is none. It allocates nothing, unlike the parser of pion/rtp, which makes
// slices for CSRCs and extensions.
func parsePacket(b []byte, levelID uint8) (header, []byte, bool) {
	h := header{level: noLevel}
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
		profile := binary.BigEndian.Uint16(payload)
		size := 4 * int(binary.BigEndian.Uint16(payload[2:]))
		if 4+size > len(payload) {
			return h, nil, false
		}
		if levelID != 0 {
			h.level = findLevel(payload[4:4+size], profile, levelID)
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

// findLevel looks for the audio level among header extensions with one-byte or
// two-byte headers (RFC 8285, 4.2 and 4.3).
func findLevel(b []byte, profile uint16, id uint8) int {
	oneByte := profile == 0xbede
	if !oneByte && profile&0xfff0 != 0x1000 {
		return noLevel
	}
	for len(b) > 0 {
		if b[0] == 0 { // padding between elements
			b = b[1:]
			continue
		}
		found, size := b[0]>>4, int(b[0]&0x0f)+1
		b = b[1:]
		if oneByte && found == 15 {
			return noLevel
		}
		if !oneByte {
			if len(b) == 0 {
				return noLevel
			}
			// The id is the whole first byte, the length the whole second.
			found, size, b = found<<4|uint8(size-1), int(b[0]), b[1:] // size-1 < 16
		}
		if size > len(b) {
			return noLevel
		}
		if found == id && size > 0 {
			return int(b[0] & 0x7f)
		}
		b = b[size:]
	}
	return noLevel
}
