package rtc

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/transport/v5/packetio"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

func TestReceiverStats(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	var s receiverStats
	if _, ok := s.report(start); ok || s.lost() != 0 {
		t.Error("a report without packets")
	}
	// 100 packets across the wrap, every tenth lost, one late, evenly paced.
	for i := range 100 {
		if i%10 == 5 {
			continue
		}
		if i == 42 {
			i = 43
		} else if i == 43 {
			i = 42
		}
		s.count(header{ssrc: 9, sequence: uint16(65500 + i), timestamp: uint32(i * frameStep)}, start.Add(time.Duration(i)*frameTime))
	}
	s.middle.Store(77)
	s.at.Store(start.UnixNano())
	r, ok := s.report(start.Add(2 * time.Second))
	want := rtcp.ReceptionReport{
		SSRC: 9, FractionLost: uint8(10 * 256 / 100), TotalLost: 10, LastSequenceNumber: 1<<16 + 65599 - 65536,
		LastSenderReport: 77, Delay: 2 << 16,
	}
	if !ok || r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	// A whole second without loss: the fraction is that of the interval.
	for i := 100; i < 150; i++ {
		s.count(header{ssrc: 9, sequence: uint16(65500 + i), timestamp: uint32(i * frameStep)}, start.Add(time.Duration(i)*frameTime+time.Duration(i%2)*time.Millisecond))
	}
	r, _ = s.report(start.Add(3 * time.Second))
	if r.FractionLost != 0 || r.TotalLost != 10 {
		t.Errorf("lost %d/256, %d in all", r.FractionLost, r.TotalLost)
	}
	// Alternating 1 ms = 48 samples.
	if r.Jitter < 40 || r.Jitter > 48 {
		t.Errorf("jitter %d", r.Jitter)
	}
	// In the long run RFC 3550's rounding, in A.8, leaves 47.
	for i := 150; i < 1000; i++ {
		s.count(header{ssrc: 9, sequence: uint16(65500 + i), timestamp: uint32(i * frameStep)}, start.Add(time.Duration(i)*frameTime+time.Duration(i%2)*time.Millisecond))
	}
	if r, _ = s.report(start.Add(20 * time.Second)); r.Jitter != 47 {
		t.Errorf("jitter %d", r.Jitter)
	}
	before := s.received.Load()
	for _, behind := range []uint16{repeated, 30, 1<<15 - 1} { // what is repeated
		s.count(header{ssrc: 9, sequence: uint16(s.highest.Load()) - behind}, start.Add(21*time.Second))
	}
	if s.received.Load() != before || s.jitter.Load()>>4 != 47 {
		t.Errorf("%d packets that were repeated count, jitter %d", s.received.Load()-before, s.jitter.Load()>>4)
	}
	s.count(header{ssrc: 10, sequence: 5}, start)
	if s.received.Load() != 1 || s.lost() != 0 {
		t.Error("a new source does not start anew")
	}
}

func TestSenderStats(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 0, 500_000_000, time.UTC)
	var s senderStats
	if s.report(1, nil, now) != nil {
		t.Error("a report without packets")
	}
	receptions := []rtcp.ReceptionReport{{SSRC: 4}}
	if r, ok := s.report(1, receptions, now).(*rtcp.ReceiverReport); !ok || r.SSRC != 1 || len(r.Reports) != 1 {
		t.Errorf("receiver report %v", r)
	}
	s.count(80, 5000, now)
	s.count(70, 5960, now.Add(frameTime))
	sr, ok := s.report(1, receptions, now.Add(frameTime+time.Second)).(*rtcp.SenderReport)
	if !ok || sr.PacketCount != 2 || sr.OctetCount != 150 || sr.RTPTime != 5960+opusClockRate || len(sr.Reports) != 1 {
		t.Errorf("sender report %v", sr)
	}
	// The era ends 2^32 s after 1900, 6:28:16 on 7 February 2036.
	testkit.Equal(t, ntp(time.Date(2036, 2, 7, 6, 28, 15, 500_000_000, time.UTC)), 1<<64-1<<31, "NTP time")
	testkit.Equal(t, sr.NTPTime, ntp(now.Add(frameTime+time.Second)), "report's NTP time")
	if _, ok := s.report(1, receptions, now.Add(time.Minute)).(*rtcp.ReceiverReport); !ok {
		t.Error("a sender report long after the last packet")
	}
}

// TestReportsOfTheRemote gives a peer RTCP of all kinds. Only the time of the sender
// reports about the current source is kept, and nothing piles up.
func TestReportsOfTheRemote(t *testing.T) {
	t.Parallel()
	const current, other = 7, 8
	marshal := func(p rtcp.Packet) []byte {
		b, err := p.Marshal()
		must(t, err)
		return b
	}
	sr := func(ssrc uint32) []byte {
		return marshal(&rtcp.SenderReport{SSRC: ssrc, NTPTime: 0x1122334455667788, Reports: []rtcp.ReceptionReport{{SSRC: current}}})
	}
	for _, test := range []struct {
		name   string
		source uint32
		packet []byte
		kept   bool
	}{
		{"of the sound", current, sr(current), true},
		{"of another source", other, sr(other), false},
		{"of another source, about the sound", current, sr(other), false},
		{"receiver report", current, marshal(&rtcp.ReceiverReport{SSRC: current}), false},
		{"cut off", current, sr(current)[:12], false},
		{"empty", current, nil, false},
		{"noise", current, []byte("\xff\x00\xff\x00\xff\x00"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := new(Peer)
			p.in.stats.count(header{ssrc: current}, time.Now())
			b := p.buffer(packetio.RTCPBufferPacket, test.source)
			if n, err := b.Write(test.packet); n != len(test.packet) || err != nil {
				t.Errorf("Write() = %d, %v", n, err)
			}
			if n, err := b.Read(make([]byte, readMTU)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("Read() = %d, %v", n, err)
			}
			if got := p.in.stats.middle.Load(); (got == 0x33445566) != test.kept || (p.in.stats.at.Load() != 0) != test.kept {
				t.Errorf("time %x, kept: %t", got, test.kept)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	p := new(Peer)
	p.in.init()
	for source := range uint32(4) {
		unread := p.buffer(packetio.RTPBufferPacket, source)
		for range 1 << 8 {
			if n, err := unread.Write(make([]byte, 1000)); n != 1000 || err != nil {
				t.Fatalf("Write() = %d, %v", n, err)
			}
		}
	}
	if n := p.in.unread.Size(); n < maxUnread/2 || n > maxUnread {
		t.Errorf("%d bytes of sound that nobody reads are kept", n)
	}
}

// TestTooManySources ends a peer whose remote sends from ever more sources.
func TestTooManySources(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.rec.waitState(t, media.StateConnected)
	ctx := testContext(t)
	for source := uint32(1); ctx.Err() == nil; {
		select {
		case <-b.peer.Done():
			b.rec.waitState(t, media.StateFailed)
			return
		default:
		}
		var packets []rtcp.Packet
		for range 20 {
			packets = append(packets, &rtcp.SenderReport{SSRC: source})
			source++
		}
		_ = b.pc.WriteRTCP(packets) // what is lost is sent with other names
	}
	t.Error("the peer keeps them all")
}

// TestReports reads our reports on a browser's side.
func TestReports(t *testing.T) {
	t.Parallel()
	b := newRawBrowser(t, newAPI(t, Config{}), rawOptions{})
	b.rec.waitState(t, media.StateConnected)
	ctx, run := beside(t)
	var flow media.Flow
	run(func() { speak(ctx, microphone{b.track}, 1, 1, 1) })
	run(func() { speak(ctx, b.peer, 1, 1, 1) })
	run(func() { _ = b.peer.Forward(ctx, newCollector(), &flow) })
	sender := b.pc.GetSenders()[0]
	_ = sender.SetReadDeadline(time.Now().Add(patience))
	for {
		packets, _, err := sender.ReadRTCP()
		must(t, err)
		for _, packet := range packets {
			sr, ok := packet.(*rtcp.SenderReport)
			if !ok || len(sr.Reports) == 0 || sr.PacketCount < 100 { // how many there are by then is the machine's
				continue
			}
			if sr.Reports[0].SSRC != uint32(sender.GetParameters().Encodings[0].SSRC) || sr.Reports[0].TotalLost != 0 {
				t.Errorf("report %v", sr)
			}
			return
		}
	}
}
