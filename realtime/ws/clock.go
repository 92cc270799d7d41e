package ws

import (
	"slices"
	"sort"
	"time"

	"voicebridge/realtime/media"
)

// The clock of the caller's sound. An upstream counts what it was sent, whatever the time between: sound that was
// held until the session was ready, or waited for a slow upstream, was said earlier than it was sent.
const (
	// closeEnough is how far a mark may be off before there is another one.
	closeEnough = 100 * time.Millisecond
	maxMarks    = 512
	// creep is how fast a caller's clock may run slow, as a share of the time.
	creep = 2000
)

// stream follows the times of a caller's packets. It is not safe for concurrent use.
type stream struct {
	source  uint32
	stamp   uint32        // of the last packet
	at      time.Duration // of the last packet by the stream's clock, which goes on from one source to the next
	arrived time.Time     // when the last packet came
	zero    time.Time     // when the stream's clock was zero, by the packet that came with the least delay
}

// take takes a packet that came now, and returns its time by the stream's clock.
func (s *stream) take(p *media.Packet, now time.Time) time.Duration {
	switch {
	case s.arrived.IsZero():
		s.arrived, s.zero = now, now
	case s.source != p.Source:
		s.at += now.Sub(s.arrived)
	default:
		s.at += time.Duration(int32(p.Timestamp-s.stamp)) * time.Second / media.ClockRate
	}
	s.zero = s.zero.Add(now.Sub(s.arrived) / creep)
	if zero := now.Add(-s.at); zero.Before(s.zero) {
		s.zero = zero
	}
	s.source, s.stamp = p.Source, p.Timestamp
	s.arrived = now
	return s.at
}

// came returns when sound of that time came, or would have come if it had not been held.
func (s *stream) came(at time.Duration) time.Time { return s.zero.Add(at) }

// mark says of a place in the sound that was sent what time of the stream it has, and when it was sent.
type mark struct {
	place time.Duration
	at    time.Duration
	sent  time.Time
}

// marks are in the order of their places; between two of them everything goes on by the clock.
type marks []mark

// add notes what is sent now.
func (m *marks) add(next mark) {
	if last, ok := m.before(next.place); ok {
		gone := next.place - last.place
		if (next.at-last.at-gone).Abs() < closeEnough && (next.sent.Sub(last.sent)-gone).Abs() < closeEnough {
			return
		}
	}
	if len(*m) == maxMarks {
		*m = slices.Delete(*m, 0, 1)
	}
	*m = append(*m, next)
}

// before returns the mark that holds for a place.
func (m *marks) before(place time.Duration) (mark, bool) {
	at := sort.Search(len(*m), func(i int) bool { return (*m)[i].place > place })
	if at == 0 {
		return mark{}, false
	}
	return (*m)[at-1], true
}
