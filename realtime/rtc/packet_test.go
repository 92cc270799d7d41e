package rtc

import (
	"bytes"
	"testing"
	"time"

	"github.com/pion/rtp"

	"voicebridge/internal/testkit"
)

func marshal(t testing.TB, p *rtp.Packet) []byte {
	t.Helper()
	b, err := p.Marshal()
	must(t, err)
	return b
}

func withExtension(t testing.TB, profile uint16, id uint8, value []byte) *rtp.Packet {
	t.Helper()
	p := &rtp.Packet{Header: rtp.Header{Version: 2, PayloadType: opusPayloadType, SSRC: 5, SequenceNumber: 77, Timestamp: 88}, Payload: []byte("opus")}
	p.Extension, p.ExtensionProfile = true, profile
	must(t, p.SetExtension(3, []byte{1, 2, 3}))
	must(t, p.SetExtension(id, value))
	return p
}

func TestParsePacket(t *testing.T) {
	t.Parallel()
	plain := rtp.Header{Version: 2, Marker: true, PayloadType: 111, SSRC: 5, SequenceNumber: 77, Timestamp: 88}
	csrcs := plain
	csrcs.CSRC = []uint32{1, 2, 3}
	padded := rtp.Packet{Header: plain, Payload: []byte("opus")}
	padded.Padding, padded.Header.PaddingSize = true, 9
	for _, tt := range []struct {
		name   string
		packet *rtp.Packet
	}{
		{"plain", &rtp.Packet{Header: plain, Payload: []byte("opus")}},
		{"CSRCs", &rtp.Packet{Header: csrcs, Payload: []byte("opus")}},
		{"padding", &padded},
		{"extensions of one byte", withExtension(t, 0xbede, 1, []byte{0x80 | 42})},
		{"extensions of two bytes", withExtension(t, 0x1000, 1, []byte{42})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, payload, ok := parsePacket(marshal(t, tt.packet))
			if !ok {
				t.Fatal("refused")
			}
			want := header{tt.packet.Marker, 77, 88, 5}
			if h != want || !bytes.Equal(payload, []byte("opus")) {
				t.Errorf("got %+v, %q, want %+v", h, payload, want)
			}
		})
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add(marshal(f, &rtp.Packet{Header: rtp.Header{Version: 2, CSRC: []uint32{1}}, Payload: []byte("opus")}))
	f.Add(marshal(f, withExtension(f, 0xbede, 1, []byte{42})))
	f.Add(marshal(f, withExtension(f, 0x1000, 200, []byte{42})))
	f.Add([]byte{0xbf, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, ok := parsePacket(b)
		if !ok {
			return
		}
		// Whatever we accept, pion/rtp must read the same way.
		var p rtp.Packet
		if p.Unmarshal(b) != nil {
			return
		}
		if p.SequenceNumber != h.sequence || p.Timestamp != h.timestamp || p.SSRC != h.ssrc || p.Marker != h.marker || !bytes.Equal(p.Payload, payload) {
			t.Errorf("got %+v and %d bytes, pion has %+v and %d", h, len(payload), p.Header, len(p.Payload))
		}
	})
}

func TestRenumber(t *testing.T) {
	t.Parallel()
	const hold, restart = -1, -2 // steps between sequence numbers
	for _, tt := range []struct {
		name string
		in   []int
		want []int // -1: dropped
	}{
		{"straight", []int{100, 101, 102}, []int{100, 101, 102}},
		{"wraps", []int{65535, 0, 1}, []int{65535, 0, 1}},
		{"loss stays", []int{100, 103}, []int{100, 103}},
		{"disorder stays", []int{100, 102, 101, 103}, []int{100, 102, 101, 103}},
		{"duplicate stays", []int{100, 100, 101}, []int{100, 100, 101}},
		{"before the first", []int{100, 99, 101}, []int{100, -1, 101}},
		{"pause closes up", []int{100, hold, 150, 151}, []int{100, 101, 102}},
		{"pause before the first", []int{hold, 150, 151}, []int{150, 151}},
		{"pause over the wrap", []int{65530, hold, 20, 21}, []int{65530, 65531, 65532}},
		{"two pauses", []int{100, hold, 150, hold, 200, 201}, []int{100, 101, 102, 103}},
		{"late after a pause", []int{100, 101, hold, 101, 150, 149, 151}, []int{100, 101, -1, 102, -1, 103}},
		{"loss after a pause", []int{100, hold, 150, 152}, []int{100, 101, 103}},
		{"other source", []int{100, restart, 7, 8}, []int{100, 101, 102}},
		{"other source, number just before", []int{100, restart, 99, 100}, []int{100, 101, 102}},
		{"other source in disorder", []int{100, restart, 7, 6, 8}, []int{100, 101, -1, 102}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r renumber
			var got []int
			for _, step := range tt.in {
				switch step {
				case hold:
					r.hold()
				case restart:
					r.restart()
				default:
					out, ok := r.next(uint16(step))
					if !ok {
						got = append(got, -1)
						continue
					}
					got = append(got, int(out))
				}
			}
			testkit.Equal(t, got, tt.want, "got")
		})
	}
}

// TestRenumberLong wraps around several times, with pauses: no gap, and no packet mistaken for a late one.
func TestRenumberLong(t *testing.T) {
	t.Parallel()
	var r renumber
	want := uint16(500)
	for i := range uint32(300_000) {
		if i%20_000 > 19_000 {
			r.hold()
			continue
		}
		got, ok := r.next(uint16(500 + i))
		if !ok || got != want {
			t.Fatalf("packet %d: %d, %v, want %d", i, got, ok, want)
		}
		want++
	}
}

func TestSplice(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type packet struct {
		ssrc      uint32
		sequence  uint16
		timestamp uint32
		ms        int
	}
	type sent struct {
		sequence  uint16
		timestamp uint32
	}
	for _, tt := range []struct {
		name string
		in   []packet
		want []sent
	}{
		{"one source", []packet{{1, 9, 5000, 0}, {1, 10, 5960, 20}}, []sent{{1, 5000}, {2, 5960}}},
		{"new source at once", []packet{{1, 9, 5000, 0}, {2, 700, 12, 3}, {2, 701, 972, 23}}, []sent{{1, 5000}, {2, 5960}, {3, 6920}}},
		{"new source after 20 ms", []packet{{1, 9, 5000, 0}, {2, 700, 12, 21}}, []sent{{1, 5000}, {2, 5960}}},
		{"new source after 1 s", []packet{{1, 9, 5000, 0}, {2, 700, 12, 1003}}, []sent{{1, 5000}, {2, 5000 + 48000}}},
		{"clock goes back", []packet{{1, 9, 5000, 50}, {2, 700, 12, 0}}, []sent{{1, 5000}, {2, 5960}}},
		{"begins where it would soon wrap", []packet{{1, 65535, 1<<32 - 1, 0}, {2, 0, 0, 20}}, []sent{{1, 1<<32 - 1}, {2, 959}}},
		{"there and back", []packet{{1, 9, 5000, 0}, {2, 7, 7, 20}, {1, 11, 6920, 40}}, []sent{{1, 5000}, {2, 5960}, {3, 6920}}},
		{"source in disorder", []packet{{1, 9, 5000, 0}, {2, 7, 960, 20}, {2, 9, 2880, 40}, {2, 8, 1920, 41}, {3, 1, 0, 60}},
			[]sent{{1, 5000}, {2, 5960}, {4, 7880}, {3, 6920}, {5, 8840}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s splice
			for i, p := range tt.in {
				sequence, timestamp, ok := s.next(p.ssrc, p.sequence, p.timestamp, at(p.ms))
				if got := (sent{sequence, timestamp}); !ok || got != tt.want[i] {
					t.Errorf("packet %d: %v, %v, want %v", i, got, ok, tt.want[i])
				}
			}
		})
	}
}

// TestSpliceTime has another source take over after a pause, which the timestamps show in whole frames.
func TestSpliceTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for elapsed, frames := range map[time.Duration]uint32{
		0: 1, time.Millisecond: 1, 29 * time.Millisecond: 1, 30 * time.Millisecond: 2, 49 * time.Millisecond: 2, time.Second: 50, -time.Second: 1,
	} {
		var s splice
		_, before, _ := s.next(1, 500, 7000, began)
		number, after, ok := s.next(2, 9, 123, began.Add(elapsed))
		if !ok || number != 2 || after-before != frames*frameStep {
			t.Errorf("after %s: number %d (%t), %d samples on, want %d frames", elapsed, number, ok, after-before, frames)
		}
	}
}
