package opus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/thesyncim/gopus"

	"voicebridge/internal/testkit"
)

var update = flag.Bool("update", false, "encode the speech in testdata again")

// spoken is speech whose packets have a copy of the one before them (in-band FEC), as browsers send it over a network
// that loses packets; each has its length of 16 bits in front. cmd/voicebridge sends it over networks that lose some.
const spoken = "testdata/inband-fec.bin"

func spokenPackets(t testing.TB) (packets [][]byte) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(spoken, encodeSpoken(t), 0o600))
	}
	file, err := os.ReadFile(spoken)
	must(t, err)
	for len(file) > 0 {
		n := 2 + int(binary.BigEndian.Uint16(file))
		packets, file = append(packets, file[2:n]), file[n:]
	}
	return packets
}

// encodeSpoken encodes 3.4 s in which the simulator's user speaks.
func encodeSpoken(t testing.TB) (file []byte) {
	t.Helper()
	wav, err := os.ReadFile("../simulator/testdata/user.wav")
	must(t, err)
	const rate, size = 48000, 960
	e, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: rate, Channels: 1, Application: gopus.ApplicationVoIP})
	must(t, err)
	e.SetFEC(true)
	must(t, errors.Join(e.SetPacketLoss(10), e.SetBitrate(32_000)))
	samples := make([]int16, (len(wav)-44)/2)
	must(t, binary.Read(bytes.NewReader(wav[44:]), binary.LittleEndian, samples))
	packet := make([]byte, largest)
	for frame := range slices.Chunk(samples[rate/2:rate/2+170*size], size) {
		n, err := e.EncodeInt16(frame, packet)
		must(t, err)
		file = append(binary.BigEndian.AppendUint16(file, uint16(n)), packet[:n]...)
	}
	return file
}

// TestRecover loses packets of speech whose followers have copies: with these it comes much nearer to what was said
// than what is made up.
func TestRecover(t *testing.T) {
	t.Parallel()
	const rate, size = 24000, 480
	packets := spokenPackets(t)
	whole := decode(t, rate, packets)
	var ratios []float64
	for _, recovers := range []bool{true, false} {
		d, err := NewDecoder(rate)
		must(t, err)
		var want, got []int16
		for i, packet := range packets[:len(packets)-1] {
			made := d.Conceal
			if recovers {
				made = func(n int) []int16 { return d.Recover(packets[i+1], n) }
			}
			if i%7 != 6 || !HasCopy(packets[i+1]) {
				_, err := d.Decode(packet)
				must(t, err)
				continue
			}
			want, got = append(want, whole[i*size:][:size]...), append(got, made(size)...)
		}
		if len(got) != len(want) || len(got) < 15*size {
			t.Fatalf("%d samples, want %d", len(got), len(want))
		}
		ratios = append(ratios, ratio(want, got))
	}
	t.Logf("%.1f dB from copies, %.1f made up", ratios[0], ratios[1])
	if ratios[0] < ratios[1]+5 {
		t.Errorf("%.1f dB from copies, %.1f made up", ratios[0], ratios[1])
	}
}

// TestRecoverMore has more and less lost than a packet has a copy of.
func TestRecoverMore(t *testing.T) {
	t.Parallel()
	packets := spokenPackets(t)
	at := slices.IndexFunc(packets, HasCopy)
	for _, n := range []int{0, 1, 240, 480, 481, 960, 4800} {
		d, err := NewDecoder(24000)
		must(t, err)
		for _, packet := range packets[:at] {
			_, err := d.Decode(packet)
			must(t, err)
		}
		testkit.Equal(t, len(d.Recover(packets[at], n)), n, "samples in the place")
		if samples, err := d.Decode(packets[at]); err != nil || len(samples) != 480 {
			t.Errorf("afterwards: %d samples, %v", len(samples), err)
		}
	}
}

// TestHasCopy looks for copies in packets of each kind.
func TestHasCopy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		packet []byte
		want   bool
	}{
		"nothing": {}, "no frame": {packet: []byte{0x48}},
		"SILK, 20 ms": {[]byte{9 << 3, 0x40}, true}, "only speech": {packet: []byte{9 << 3, 0x80}},
		"SILK, 10 ms": {[]byte{8 << 3, 0x40}, true}, "SILK, 40 ms": {[]byte{10 << 3, 0x20}, true},
		"SILK, 60 ms": {[]byte{11 << 3, 0x10}, true}, "speech of 60 ms": {packet: []byte{11 << 3, 0xe0}},
		"hybrid": {[]byte{13 << 3, 0x40}, true}, "two frames": {[]byte{9<<3 | 1, 0x40, 0}, true},
		"frames of two sizes": {packet: []byte{9<<3 | 2, 0x40, 0}}, "MDCT": {packet: []byte{0xf8, 0xff}},
	} {
		if got := HasCopy(tt.packet); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
