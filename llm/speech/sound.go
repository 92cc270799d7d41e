package speech

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// WAV returns samples, mono, as a file.
func WAV(samples []int16, rate int) []byte {
	size := 2 * len(samples)
	b := make([]byte, 0, wavHeader+size)
	b = append(b, "RIFF"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(wavHeader-8+size))
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	for _, v := range []uint32{1<<16 | formatPCM, uint32(rate), uint32(2 * rate), 16<<16 | 2} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

const (
	wavHeader     = 44
	maxHeader     = 64 << 10 // in bytes: what may come before the samples
	maxChannels   = 8
	formatPCM     = 1
	formatByGUID  = 0xfffe // which begins with the format
	minRate       = 8000
	maxRate       = 96000
	riff, wavMark = "RIFF", "WAVE"
)

// decoder reads sound that comes in pieces, cut anywhere: a WAV, whose lengths are ignored, or raw samples.
type decoder struct {
	rate     int  // of raw samples; the header of a WAV has its own
	raw      bool // what is no WAV is samples
	channels int  // 0 until the samples begin
	held     []byte
}

// decode returns the samples of the next piece, mixed down to mono.
func (d *decoder) decode(piece []byte) ([]int16, error) {
	d.held = append(d.held, piece...)
	if d.channels == 0 {
		if begun, err := d.begin(); !begun {
			return nil, err
		}
	}
	size := 2 * d.channels
	samples := make([]int16, 0, len(d.held)/size)
	b := d.held
	for ; len(b) >= size; b = b[size:] {
		sum := 0
		for at := 0; at < size; at += 2 {
			sum += int(int16(binary.LittleEndian.Uint16(b[at:])))
		}
		samples = append(samples, int16(sum/d.channels))
	}
	d.held = append(d.held[:0], b...)
	return samples, nil
}

// begin reads the header, if there is one, and reports whether the samples begin.
func (d *decoder) begin() (bool, error) {
	b := d.held
	switch n := min(len(b), len(riff)); {
	case string(b[:n]) == riff[:n] && len(b) < 12:
		return false, nil
	case string(b[:n]) != riff || string(b[8:12]) != wavMark:
		for _, mark := range []string{"OggS", "fLaC", "ID3"} {
			if bytes.HasPrefix(b, []byte(mark)) {
				d.raw = false
			}
		}
		if !d.raw {
			return false, fmt.Errorf("sends sound that is neither WAV nor raw PCM")
		}
		d.channels = 1
		return true, nil
	}
	var channels int
	for at := 12; at+8 <= len(b); {
		size, body := int(binary.LittleEndian.Uint32(b[at+4:])), b[at+8:]
		switch string(b[at : at+4]) {
		case "data":
			if channels == 0 {
				return false, fmt.Errorf("sends a WAV without its format")
			}
			d.channels = channels
			d.held = body
			return true, nil
		case "fmt ":
			if len(body) < min(size, 26) {
				return false, nil
			}
			if size < 16 {
				return false, fmt.Errorf("sends a WAV without its format")
			}
			tag, bits := binary.LittleEndian.Uint16(body), binary.LittleEndian.Uint16(body[14:])
			if tag == formatByGUID && size >= 26 {
				tag = binary.LittleEndian.Uint16(body[24:])
			}
			channels, d.rate = int(binary.LittleEndian.Uint16(body[2:])), int(binary.LittleEndian.Uint32(body[4:]))
			if tag != formatPCM || bits != 16 || channels == 0 || channels > maxChannels || !isRate(d.rate) {
				return false, fmt.Errorf("sends a WAV of format %d with %d bits, %d channels and %d Hz; it must be PCM "+
					"(1) with 16 bits", tag, bits, channels, d.rate)
			}
		}
		at += 8 + size + size&1
		if at > maxHeader {
			return false, fmt.Errorf("sends a WAV that does not begin")
		}
	}
	return false, nil
}

func isRate(rate int) bool { return rate >= minRate && rate <= maxRate }
