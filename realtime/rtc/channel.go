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
