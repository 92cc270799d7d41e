package speech

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// WAV returns samples, mono, as a file.
func WAV(samples []int16, rate int) []byte {
	size := uint32(2 * len(samples))
	b := binary.LittleEndian.AppendUint32([]byte("RIFF"), 36+size)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...) // PCM, one channel
	b = binary.LittleEndian.AppendUint32(b, uint32(rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(2*rate))
	b = append(b, "\x02\x00\x10\x00data"...) // 16 bits
	b = binary.LittleEndian.AppendUint32(b, size)
	b, _ = binary.Append(b, binary.LittleEndian, samples)
	return b
}

// Limits of what servers send.
const (
	maxHeader   = 64 << 10 // bytes before the samples of a WAV
	maxChannels = 8
	minRate     = 8000
	maxRate     = 96000
)

func isRate(rate int) bool { return rate >= minRate && rate <= maxRate }

// decoder reads sound that comes in pieces, cut anywhere: a WAV, whose lengths are ignored, or raw samples.
type decoder struct {
	rate     int  // of raw samples; the header of a WAV has its own
	raw      bool // what is no WAV is samples
	begun    bool
	channels int
	held     []byte
}

// decode returns the samples of the next piece, mixed down to mono.
func (d *decoder) decode(piece []byte) (samples []int16, err error) {
	d.held = append(d.held, piece...)
	if !d.begun && len(d.held) > 0 {
		err = d.begin()
	}
	for size := 2 * d.channels; d.begun && len(d.held) >= size; d.held = d.held[size:] {
		sum := 0
		for at := 0; at < size; at += 2 {
			sum += int(int16(binary.LittleEndian.Uint16(d.held[at:])))
		}
		samples = append(samples, int16(sum/d.channels))
	}
	return samples, err
}

// begin reads the header, if there is one.
func (d *decoder) begin() error {
	b := d.held
	if n := min(len(b), 4); string(b[:n]) != "RIFF"[:n] {
		if d.begun, d.channels = d.raw, 1; !d.raw {
			return errors.New("sends sound that is neither WAV nor raw PCM")
		}
		return nil
	}
	for at := 12; at+8 <= len(b); {
		size, body := int(binary.LittleEndian.Uint32(b[at+4:])), b[at+8:]
		switch string(b[at : at+4]) {
		case "data":
			if d.begun, d.held = d.channels > 0, body; !d.begun {
				return errors.New("sends a WAV without its format")
			}
			return nil
		case "fmt ":
			if len(body) < min(max(size, 16), 26) {
				return nil
			}
			tag, bits := binary.LittleEndian.Uint16(body), binary.LittleEndian.Uint16(body[14:])
			if tag == 0xfffe && size >= 26 { // WAVE_FORMAT_EXTENSIBLE: a GUID that begins with the format
				tag = binary.LittleEndian.Uint16(body[24:])
			}
			d.channels, d.rate = int(binary.LittleEndian.Uint16(body[2:])), int(binary.LittleEndian.Uint32(body[4:]))
			if tag != 1 || bits != 16 || d.channels == 0 || d.channels > maxChannels || !isRate(d.rate) {
				return fmt.Errorf("sends a WAV of format %d with %d bits, %d channels and %d Hz: it must be PCM (1) with "+
					"16 bits", tag, bits, d.channels, d.rate)
			}
		}
		if at += 8 + size + size&1; at > maxHeader {
			return errors.New("sends a WAV that does not begin")
		}
	}
	return nil
}
