package rtc

import "testing"

// TestStuck has checks of a channel whose reader waits. Only the second in a row that finds the window full of one
// message tells that it is blocked.
func TestStuck(t *testing.T) {
	t.Parallel()
	const full = receiveBufferSize
	type check struct {
		received, sent uint64
		busy           bool // the reader has a message
		read           bool // a message was read before the check
		want           bool
	}
	for name, checks := range map[string][]check{
		"blocked":                {{received: full}, {received: full, want: true}},
		"long blocked":           {{received: full}, {received: full, want: true}, {received: full, want: true}},
		"once":                   {{received: full}},
		"a message came between": {{received: full}, {received: 2 * full, read: true}, {received: 3 * full}, {received: 3 * full, want: true}},
		"the reader was busy":    {{received: full}, {received: full, busy: true}, {received: full}, {received: full, want: true}},
		"not full":               {{received: full / 2}, {received: full / 2}},
		"acknowledgements":       {{received: full, sent: full}, {received: full, sent: full}},
		"it counts from 0 again": {{received: full, read: true}, {received: 1}, {received: 1}},
	} {
		var s stall
		for i, c := range checks {
			if c.read {
				s.mark(c.received, c.sent)
			}
			s.reading.Store(!c.busy)
			if got := s.stuck(c.received, c.sent); got != c.want {
				t.Errorf("%s: check %d says %t", name, i+1, got)
			}
		}
	}
}
