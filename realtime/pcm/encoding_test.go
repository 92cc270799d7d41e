package pcm

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"voicebridge/internal/testkit"
)

func TestEncodings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		encoding Encoding
		samples  []int16
		data     []byte
		decoded  []int16
	}{
		{
			"linear", Linear,
			[]int16{0, 1, -1, math.MaxInt16, math.MinInt16}, []byte{0, 0, 1, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0x80},
			[]int16{0, 1, -1, math.MaxInt16, math.MinInt16},
		},
		{ // The values of G.711's tables, in 16 bits.
			"µ-law", ULaw,
			[]int16{0, -1, 8, -8, 1000, -1000, math.MaxInt16, math.MinInt16}, []byte{0xff, 0x7f, 0xfe, 0x7e, 0xce, 0x4e, 0x80, 0x00},
			[]int16{0, 0, 8, -8, 988, -988, 32124, -32124},
		},
		{
			"A-law", ALaw,
			[]int16{0, -1, 16, -16, 1000, -1000, math.MaxInt16, math.MinInt16}, []byte{0xd5, 0x55, 0xd4, 0x55, 0xfa, 0x7a, 0xaa, 0x2a},
			[]int16{8, -8, 24, -8, 1008, -1008, 32256, -32256},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := []byte{9}
			data := tt.encoding.Append(before, tt.samples)
			if !bytes.Equal(data[1:], tt.data) || data[0] != 9 {
				t.Errorf("%x, want %x", data[1:], tt.data)
			}
			testkit.Equal(t, tt.encoding.Decode(nil, data[1:]), tt.decoded, "decoded")
			testkit.Equal(t, len(data)-1, len(tt.samples)*tt.encoding.Size(), "bytes for %d samples", len(tt.samples))
		})
	}
	if got := Linear.Decode(nil, []byte{1, 2, 3}); !slices.Equal(got, []int16{0x0201}) {
		t.Errorf("half a sample: %v", got)
	}
}

// TestCompanding shows what G.711 promises: each value within a thirty-second of itself, also the smallest ones within
// eight; and what was decoded once stays the same.
func TestCompanding(t *testing.T) {
	t.Parallel()
	for _, encoding := range []Encoding{ULaw, ALaw} {
		for sample := math.MinInt16; sample <= math.MaxInt16; sample++ {
			code := encoding.Append(nil, []int16{int16(sample)})
			got := encoding.Decode(nil, code)
			off := int(got[0]) - sample
			if off = max(off, -off); off > max(9, (max(sample, -sample)+132)/32+1) {
				t.Fatalf("encoding %d: %d became %d", encoding, sample, got[0])
			}
			if again := encoding.Decode(nil, encoding.Append(nil, got)); again[0] != got[0] {
				t.Fatalf("encoding %d: %d became %d, and then %d", encoding, sample, got[0], again[0])
			}
		}
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	square := slices.Repeat([]int16{math.MinInt16}, 480)
	half := slices.Repeat([]int16{math.MaxInt16/2 + 1}, 480)
	for _, tt := range []struct {
		name    string
		samples []int16
		want    float64
	}{{"nothing", nil, Silence}, {"silence", make([]int16, 480), Silence}, {"full scale", square, 0}, {"half", half, -6.02}} {
		if got := Level(tt.samples); math.Abs(got-tt.want) > 0.01 {
			t.Errorf("%s: %.2f dBFS, want %.2f", tt.name, got, tt.want)
		}
	}
}
