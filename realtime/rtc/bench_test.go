package rtc

import (
	"testing"
	"time"

	"voicebridge/realtime/media"
)

// BenchmarkPass measures our part of one forwarded packet: reading its header, gate, numbers, counters. Nothing is
// encrypted or sent.
func BenchmarkPass(b *testing.B) {
	a := newAPI(b, Config{})
	p, _, err := a.Offer(b.Context(), media.Handlers{})
	must(b, err)
	var flow media.Flow
	flow.Open()
	r := relay{peer: p, dst: p, flow: &flow}
	packet := marshal(b, withExtension(b, 0xbede, 1, []byte{42}))
	sequence := uint16(0)
	b.ReportAllocs()
	for b.Loop() {
		sequence++
		packet[2], packet[3] = byte(sequence>>8), byte(sequence)
		_ = r.pass(packet, time.Now())
	}
}
