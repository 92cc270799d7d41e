package rtc

import "sync/atomic"

// stall detects a message that can never complete. A remote that ignores our max-message-size and sends more than the
// receive window holds blocks its own direction for good: the fragments fill the window, and no reader can take them
// (RFC 9260, 6.2). Pion bounds the memory but tells nobody.
type stall struct {
	received, sent atomic.Uint64 // bytes of the association at the newest message
	// reading is set while the reader waits for a message. While it is busy with one, whole messages may fill the
	// window.
	reading atomic.Bool
	// suspect is the mark at which the last check found a stall. Only the watcher uses it.
	suspect uint64
}

// stallSlack allows for bytes of the next message that came before the newest one was read.
const stallSlack = 64 << 10

// mark notes that a message was read.
func (s *stall) mark(received, sent uint64) {
	s.received.Store(received)
	s.sent.Store(sent)
}

// found reports whether the bytes since the newest message fill the receive window. Acknowledgements of what was sent
// meanwhile do not matter: they are less than a quarter of it.
func (s *stall) found(received, sent uint64) bool {
	since, acknowledged := received-s.received.Load(), (sent-s.sent.Load())/4
	if received < s.received.Load() || sent < s.sent.Load() {
		return false // the association is gone and counts from 0
	}
	return since > acknowledged+receiveBufferSize-stallSlack
}

// stuck reports whether two checks in a row have found the same message unfinished: one may just be under way.
func (s *stall) stuck(received, sent uint64) bool {
	mark := s.received.Load() + 1 // never 0
	if !s.reading.Load() || !s.found(received, sent) {
		s.suspect = 0
		return false
	}
	again := s.suspect == mark
	s.suspect = mark
	return again
}
