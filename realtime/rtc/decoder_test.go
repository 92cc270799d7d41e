package rtc

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pion/opus/pkg/oggreader"
)

// tonePackets are 0.3 s of a 440 Hz tone at -21 dBFS, encoded by libopus.
func tonePackets(t testing.TB) [][]byte {
	t.Helper()
	out := packetsOf(t, "testdata/tone.ogg")
	if len(out) < 10 {
		t.Fatalf("%d packets in the file", len(out))
	}
	return out
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	d, err := NewDecoder()
	must(t, err)
	pcm := make([]int16, MaxFrame)
	for i, packet := range tonePackets(t) {
		n, err := d.Decode(packet, pcm)
		if err != nil || n != frameStep {
			t.Fatalf("packet %d: %d samples, %v", i, n, err)
		}
		if level := Level(pcm[:n]); i >= 3 && i <= 12 && math.Abs(level+21) > 1.5 {
			t.Errorf("packet %d: level %.1f dBFS, want -21", i, level)
		}
	}
	for _, bad := range [][]byte{nil, {}} {
		if _, err := d.Decode(bad, pcm); err == nil {
			t.Errorf("packet %x is no error", bad)
		}
	}
	if _, err := d.Decode(tonePackets(t)[0], pcm[:100]); err == nil {
		t.Error("too little room is no error")
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		noise := make([]byte, 1+random.IntN(300))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		if n, err := d.Decode(noise, pcm); err == nil && n > MaxFrame {
			t.Errorf("%d samples", n)
		}
	}
	if n, err := d.Decode(tonePackets(t)[5], pcm); err != nil || n != frameStep {
		t.Errorf("after noise: %d samples, %v", n, err)
	}
}

func TestLevelOfSamples(t *testing.T) {
	t.Parallel()
	square := make([]int16, 480)
	for i := range square {
		square[i] = math.MinInt16
	}
	half := make([]int16, 480)
	for i := range half {
		half[i] = math.MaxInt16/2 + 1
	}
	for _, tt := range []struct {
		name string
		pcm  []int16
		want float64
	}{{"nothing", nil, Silence}, {"silence", make([]int16, 480), Silence}, {"full scale", square, 0}, {"half", half, -6.02}} {
		if got := Level(tt.pcm); math.Abs(got-tt.want) > 0.01 {
			t.Errorf("%s: %.2f dBFS, want %.2f", tt.name, got, tt.want)
		}
	}
}

// packetsOf reads the Opus packets of an Ogg file.
func packetsOf(t testing.TB, name string) [][]byte {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	r, _, err := oggreader.NewWith(f)
	must(t, err)
	var out [][]byte
	for {
		packet, _, err := r.ParseNextPacket()
		if err != nil {
			return out
		}
		if len(packet) < 8 || string(packet[:8]) != "OpusTags" {
			out = append(out, packet)
		}
	}
}
