package rtc

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pion/datachannel"
)

// channel is the peer's data channel.
type channel struct {
	limit  atomic.Int64  // largest message the remote accepts, in bytes
	taken  atomic.Bool   // the peer has its channel, open or not
	opened chan struct{} // closed when stream is set
	read   chan struct{} // closed when the reader has ended
	low    chan struct{} // holds a token when the buffered amount has fallen to the low-water mark
	slot   chan struct{} // held by the one sender

	mu     sync.Mutex
	stream *datachannel.DataChannel // nil until open

	stall   stall
	refused atomic.Int32
}

func (c *channel) init() {
	c.limit.Store(defaultRemoteMessageSize)
	c.opened = make(chan struct{})
	c.read = make(chan struct{})
	c.low = make(chan struct{}, 1)
	c.slot = make(chan struct{}, 1)
}

func (c *channel) drained() {
	select {
	case c.low <- struct{}{}:
	default:
	}
}

// open returns the open stream or nil.
func (c *channel) open() *datachannel.DataChannel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// flush waits until the remote has acknowledged all that was sent.
func (c *channel) flush(ctx context.Context, done <-chan struct{}) {
	stream := c.open()
	if stream == nil {
		return
	}
	stream.SetBufferedAmountLowThreshold(0)
	for stream.BufferedAmount() > 0 {
		select {
		case <-c.low:
		case <-ctx.Done():
			return
		case <-done:
			return
		}
	}
}

// awaitRead waits until everything that came before the remote's end has been read.
func (c *channel) awaitRead() {
	if c.open() != nil {
		<-c.read
	}
}

// close resets the stream, so that the remote's channel closes cleanly.
func (c *channel) close() {
	if stream := c.open(); stream != nil {
		_ = stream.Close() // once the association is gone there is nothing to reset
	}
}

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
