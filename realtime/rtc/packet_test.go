package rtc

import (
	"bytes"
	"testing"

	"github.com/pion/rtp"
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
