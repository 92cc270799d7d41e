package pcm

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Encoding is how samples are written as bytes.
type Encoding int

// The encodings of the Realtime API.
const (
	Linear Encoding = iota // 16 bits, little-endian: audio/pcm
	ULaw                   // µ-law of G.711, 8 bits: audio/pcmu
	ALaw                   // A-law of G.711, 8 bits: audio/pcma
)

// Size returns how many bytes a sample takes.
func (e Encoding) Size() int {
	if e == Linear {
		return 2
	}
	return 1
}

// Append appends samples to data as bytes.
func (e Encoding) Append(data []byte, samples []int16) []byte {
	switch e {
	case ULaw:
		for _, s := range samples {
			data = append(data, toULaw[uint16(s)>>2])
		}
	case ALaw:
		for _, s := range samples {
			data = append(data, toALaw[uint16(s)>>3])
		}
	default:
		for _, s := range samples {
			data = binary.LittleEndian.AppendUint16(data, uint16(s))
		}
	}
	return data
}

// Decode appends the samples that data says to samples. Half a sample at its end is left out.
func (e Encoding) Decode(samples []int16, data []byte) []int16 {
	switch e {
	case ULaw:
		for _, b := range data {
			samples = append(samples, fromULaw[b])
		}
	case ALaw:
		for _, b := range data {
			samples = append(samples, fromALaw[b])
		}
	default:
		for ; len(data) >= 2; data = data[2:] {
			samples = append(samples, int16(binary.LittleEndian.Uint16(data)))
		}
	}
	return samples
}

// The tables of G.711. µ-law sees 14 bits of a sample and A-law 13, so the tables that encode have an entry for each
// value of those, in the order of unsigned numbers.
var (
	fromULaw = table(256, func(i int) int16 { return expandULaw(byte(i)) })
	fromALaw = table(256, func(i int) int16 { return expandALaw(byte(i)) })
	toULaw   = table(1<<14, func(i int) byte { return compressULaw(int16(i << 2)) })
	toALaw   = table(1<<13, func(i int) byte { return compressALaw(int16(i << 3)) })
)

func table[T any](size int, entry func(i int) T) []T {
	out := make([]T, size)
	for i := range out {
		out[i] = entry(i)
	}
	return out
}

// expandULaw decodes one byte of µ-law (G.711, table 2): sign, three bits of exponent, four of mantissa, all inverted.
func expandULaw(code byte) int16 {
	code = ^code
	magnitude := (int16(code&0x0f)<<3+ulawBias)<<(code>>4&7) - ulawBias
	if code&0x80 != 0 {
		return -magnitude
	}
	return magnitude
}

// ulawBias is what µ-law adds to a magnitude, so that each exponent's range begins at a power of two.
const ulawBias = 0x84

func compressULaw(sample int16) byte {
	sign, magnitude := byte(0), int(sample)
	if magnitude < 0 {
		sign, magnitude = 0x80, ^magnitude
	}
	magnitude = min(magnitude, 32635) + ulawBias
	exponent := exponentOf(magnitude >> 8)
	return ^(sign | exponent<<4 | byte(magnitude>>(exponent+3))&0x0f)
}

// expandALaw decodes one byte of A-law (G.711, table 1): every other bit is inverted, and the first range is linear.
func expandALaw(code byte) int16 {
	code ^= 0x55
	magnitude := int16(code&0x0f)<<4 + 8
	if exponent := code >> 4 & 7; exponent > 0 {
		magnitude = (magnitude + 0x100) << (exponent - 1)
	}
	if code&0x80 == 0 {
		return -magnitude
	}
	return magnitude
}

func compressALaw(sample int16) byte {
	sign, magnitude := byte(0x80), int(sample)
	if magnitude < 0 {
		sign, magnitude = 0, ^magnitude
	}
	exponent := exponentOf(magnitude >> 8)
	shift := max(exponent, 1) + 3
	return (sign | exponent<<4 | byte(magnitude>>shift)&0x0f) ^ 0x55
}

// exponentOf returns how many bits n takes, seven at most.
func exponentOf(n int) byte { return byte(min(7, bits.Len(uint(n)))) }

// Silence is what Level returns for digital silence, in dBFS: the 127 of RFC 6464.
const Silence = -127.0

// Level returns the root mean square of samples in dBFS: 0 for a full-scale square wave, Silence for digital silence or
// no samples.
func Level(samples []int16) float64 {
	var sum float64
	for _, s := range samples {
		v := float64(s) / 32768
		sum += v * v
	}
	if sum == 0 {
		return Silence
	}
	return max(Silence, 10*math.Log10(sum/float64(len(samples))))
}
