package simulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// frameSamples is the length of a packet of our clips: 20 ms at 48 kHz.
const frameSamples = 960

// oggPackets returns the Opus packets of an Ogg file (RFC 3533, RFC 7845) without the two header packets. The files are
// our own clips, so checksums are not verified.
func oggPackets(file []byte) ([][]byte, error) {
	var packets [][]byte
	var packet []byte
	for len(file) > 0 {
		if len(file) < 27 || !bytes.HasPrefix(file, []byte("OggS")) {
			return nil, errors.New("read ogg: no page where one must begin")
		}
		segments := int(file[26])
		if len(file) < 27+segments {
			return nil, errors.New("read ogg: page header is cut")
		}
		table, body := file[27:27+segments], file[27+segments:]
		for _, n := range table {
			if len(body) < int(n) {
				return nil, errors.New("read ogg: page is cut")
			}
			packet = append(packet, body[:n]...)
			body = body[n:]
			if n < 255 { // a shorter segment ends the packet
				packets = append(packets, packet)
				packet = nil
			}
		}
		file = body
	}
	if len(packets) < 3 || !bytes.HasPrefix(packets[0], []byte("OpusHead")) || !bytes.HasPrefix(packets[1], []byte("OpusTags")) {
		return nil, errors.New("read ogg: not an Opus stream")
	}
	if head := packets[0]; len(head) < 19 || head[9] != 1 || binary.LittleEndian.Uint16(head[10:]) > 3840 {
		return nil, errors.New("read ogg: not a mono stream")
	}
	packets = packets[2:]
	for i, p := range packets {
		if samples := packetSamples(p); samples != frameSamples {
			return nil, fmt.Errorf("read ogg: packet %d has %d samples, not %d", i, samples, frameSamples)
		}
	}
	return packets, nil
}

// packetSamples returns the length of an Opus packet at 48 kHz from its first byte (RFC 6716,
// section 3.1); 0 for a malformed packet.
func packetSamples(p []byte) int {
	if len(p) == 0 {
		return 0
	}
	config := p[0] >> 3
	var frame int
	switch {
	case config < 12: // SILK: 10, 20, 40, 60 ms
		frame = [...]int{480, 960, 1920, 2880}[config&3]
	case config < 16: // hybrid: 10, 20 ms
		frame = [...]int{480, 960}[config&1]
	default: // CELT: 2.5, 5, 10, 20 ms
		frame = [...]int{120, 240, 480, 960}[config&3]
	}
	switch p[0] & 3 {
	case 0:
		return frame
	case 1, 2:
		return 2 * frame
	}
	if len(p) < 2 {
		return 0
	}
	return int(p[1]&63) * frame
}
