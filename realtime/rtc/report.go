package rtc

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
)

// reportEvery is the time between two RTCP reports (RFC 3550, 6.2: 5 s).
const reportEvery = 5 * time.Second

// repeated is how many newer packets come before one that was repeated, at least. It counts as lost: a browser whose
// losses are not reported leaves out the copies of lost packets (in-band FEC), which come in time.
const repeated = 2

// ntpEpoch is 1970 in seconds since 1900.
const ntpEpoch = 2208988800

// ntp returns t as a 64-bit NTP timestamp (RFC 3550, 4).
func ntp(t time.Time) uint64 {
	s := uint64(t.Unix() + ntpEpoch)                         // from 2036 on the shift below drops the era
	fraction := uint64(t.Nanosecond()) << 32 / 1_000_000_000 // below 2^62
	return s<<32 | fraction
}

// receiverStats counts the remote's packets for receiver reports (RFC 3550,
// 6.4.1 and A.3). Forward is its one writer; each field may be read at any time.
type receiverStats struct {
	ssrc     atomic.Uint32
	received atomic.Uint32
	base     atomic.Uint32 // extended sequence number of the first packet
	highest  atomic.Uint32 // extended highest sequence number
	jitter   atomic.Uint32 // in 1/16 of a timestamp unit

	transit uint32 // used only by the writer
	senderReport

	expectedBefore, receivedBefore uint32 // used only by the report's writer
}

// senderReport is what is kept of the remote's latest sender report.
type senderReport struct {
	middle atomic.Uint32 // the middle 32 bits of its NTP timestamp
	at     atomic.Int64  // when it came, in ns since 1970; 0 if none has
}

func (s *receiverStats) count(h header, now time.Time) {
	arrival := uint32(now.UnixNano() / (int64(time.Second) / opusClockRate)) // wraps as timestamps do
	transit := arrival - h.timestamp
	if s.received.Load() == 0 || s.ssrc.Load() != h.ssrc {
		s.ssrc.Store(h.ssrc)
		s.base.Store(uint32(h.sequence))
		s.highest.Store(uint32(h.sequence))
		s.received.Store(1)
		s.jitter.Store(0)
		s.transit = transit
		return
	}
	highest := s.highest.Load()
	if behind := uint16(highest) - h.sequence; behind >= repeated && behind < 1<<15 {
		return
	}
	if ahead := h.sequence - uint16(highest); ahead < 1<<15 { // serial arithmetic
		s.highest.Store(highest + uint32(ahead))
	}
	s.received.Store(s.received.Load() + 1)
	d := int64(int32(transit - s.transit)) // a signed difference
	s.transit = transit
	if d < 0 {
		d = -d
	}
	jitter := int64(s.jitter.Load())
	s.jitter.Store(uint32(jitter + d - (jitter+8)>>4)) // RFC 3550, A.8
}

// lost is the number of packets that never came, negative if there were duplicates.
func (s *receiverStats) lost() int64 {
	received := s.received.Load()
	if received == 0 {
		return 0
	}
	return int64(s.highest.Load()-s.base.Load()) + 1 - int64(received)
}

func (s *receiverStats) report(now time.Time) (rtcp.ReceptionReport, bool) {
	received := s.received.Load()
	if received == 0 {
		return rtcp.ReceptionReport{}, false
	}
	highest := s.highest.Load()
	expected := highest - s.base.Load() + 1
	dExpected, dReceived := int64(expected-s.expectedBefore), int64(received-s.receivedBefore)
	s.expectedBefore, s.receivedBefore = expected, received
	r := rtcp.ReceptionReport{
		SSRC:               s.ssrc.Load(),
		TotalLost:          uint32(min(max(s.lost(), 0), 1<<23-1)), // clamped
		LastSequenceNumber: highest,
		Jitter:             s.jitter.Load() >> 4,
	}
	if lost := dExpected - dReceived; dExpected > 0 && lost > 0 {
		r.FractionLost = uint8(min(lost<<8/dExpected, 255)) // clamped
	}
	if at := s.at.Load(); at != 0 {
		r.LastSenderReport = s.middle.Load()
		r.Delay = uint32((now.UnixNano() - at) * 65536 / int64(time.Second)) // wraps after 18 h
	}
	return r, true
}

// senderStats counts what goes to the remote for sender reports.
type senderStats struct {
	packets, octets atomic.Uint32
	timestamp       atomic.Uint32
	at              atomic.Int64 // ns since 1970
}

func (s *senderStats) count(payload int, timestamp uint32, now time.Time) {
	s.octets.Store(s.octets.Load() + uint32(payload)) // RFC 3550 lets it wrap
	s.timestamp.Store(timestamp)
	s.at.Store(now.UnixNano())
	s.packets.Store(s.packets.Load() + 1)
}

func (s *senderStats) report(ssrc uint32, receptions []rtcp.ReceptionReport, now time.Time) rtcp.Packet {
	at := s.at.Load()
	since := time.Duration(now.UnixNano() - at)
	if at != 0 && since < 2*reportEvery {
		return &rtcp.SenderReport{
			SSRC:        ssrc,
			NTPTime:     ntp(now),
			RTPTime:     s.timestamp.Load() + uint32(since*opusClockRate/time.Second), // wraps as timestamps do
			PacketCount: s.packets.Load(),
			OctetCount:  s.octets.Load(),
			Reports:     receptions,
		}
	}
	if len(receptions) == 0 {
		return nil
	}
	return &rtcp.ReceiverReport{SSRC: ssrc, Reports: receptions}
}

// reports takes the RTCP of one source of the remote, or about one of ours. It keeps nothing but the time of sender
// reports: a buffer would fill up, or need a goroutine that empties it.
type reports struct {
	nowhere

	source  uint32
	stats   *receiverStats
	sent    *sent
	repairs bool // the remote may ask for what was sent
}

// Write takes one RTCP packet.
func (r reports) Write(b []byte) (int, error) {
	packets, err := rtcp.Unmarshal(b)
	if err != nil {
		return len(b), nil //nolint:nilerr // hostile, or newer than pion/rtcp: no reason to stop
	}
	for _, packet := range packets {
		switch packet := packet.(type) {
		case *rtcp.SenderReport:
			if packet.SSRC == r.source && packet.SSRC == r.stats.ssrc.Load() {
				r.stats.middle.Store(uint32(packet.NTPTime >> 16)) // the middle 32 bits
				r.stats.at.Store(time.Now().UnixNano())
			}
			r.sent.reported(r.source, packet.Reports)
		case *rtcp.ReceiverReport:
			r.sent.reported(r.source, packet.Reports)
		case *rtcp.TransportLayerNack:
			if packet.MediaSSRC == r.source && r.repairs {
				r.sent.repeat(packet)
			}
		}
	}
	return len(b), nil
}

// nowhere is the buffer of a source that is not wanted.
type nowhere struct{}

// Write drops a packet.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// Read has nothing to return.
func (nowhere) Read([]byte) (int, error) { return 0, io.EOF }

func (nowhere) Close() error { return nil }
