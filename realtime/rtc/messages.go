package rtc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pion/datachannel"
	"github.com/pion/webrtc/v4"

	"voicebridge/realtime/media"
)

const (
	// readBuffer holds most events and largeBuffer nearly all, in bytes; larger ones get a buffer of their own.
	readBuffer  = 2 << 10
	largeBuffer = 32 << 10
	// maxRefused is how many data channels may be refused before the peer ends.
	maxRefused = 16
)

// onDataChannel takes the first channel with our label and refuses all others.
func (p *Peer) onDataChannel(dc *webrtc.DataChannel) {
	if dc.Label() == channelLabel && p.useChannel(dc) {
		return
	}
	n := p.channel.refused.Add(1)
	p.log.Warn("data channel refused", "label_length", len(dc.Label()), "second", dc.Label() == channelLabel)
	if n > maxRefused {
		p.log.Warn("too many data channels, peer ended")
		p.end(media.StateFailed)
	}
	// If it is not open yet, Close makes Pion reset the stream once it is.
	if err := dc.Close(); err != nil {
		p.log.Debug("data channel close failed", "error", err)
	}
}

// makeChannel makes the peer's channel: on a stream that both sides know, or nil to announce it.
func (p *Peer) makeChannel(stream *uint16) error {
	dc, err := p.pc.CreateDataChannel(channelLabel, &webrtc.DataChannelInit{Negotiated: new(stream != nil), ID: stream})
	if err != nil {
		return fmt.Errorf("make data channel: %w", err)
	}
	p.useChannel(dc)
	return nil
}

// useChannel makes dc the peer's channel unless it already has one.
func (p *Peer) useChannel(dc *webrtc.DataChannel) bool {
	if !p.channel.taken.CompareAndSwap(false, true) {
		return false
	}
	dc.OnOpen(func() {
		detached, err := dc.Detach()
		stream, ok := detached.(*datachannel.DataChannel)
		if err != nil || !ok {
			p.log.Warn("data channel not usable", "error", err)
			p.end(media.StateFailed)
			return
		}
		p.run(stream)
	})
	return true
}

// run starts the reader, unless the peer has ended meanwhile.
func (p *Peer) run(stream *datachannel.DataChannel) {
	c := &p.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-p.done:
		return // Close closes the association under the stream
	default:
	}
	c.stream = stream
	stream.SetBufferedAmountLowThreshold(lowWater)
	stream.OnBufferedAmountLow(c.drained)
	p.goroutines.Go(func() { p.read(stream) })
	p.h.Reach(media.StepChannel)
	close(c.opened)
}

// read hands on messages until the channel ends, and then ends the peer: without its channel a call cannot be
// controlled.
func (p *Peer) read(stream datachannel.Reader) {
	defer close(p.channel.read)
	defer p.end(media.StateClosed)
	if p.h.Open != nil {
		p.h.Open()
	}
	small := make([]byte, readBuffer)
	for {
		data, err := p.next(stream, small)
		switch {
		case errors.Is(err, errSkipped):
			continue
		case err != nil:
			if !errors.Is(err, io.EOF) {
				p.log.Debug("data channel ended", "error", err)
			}
			return
		}
		p.handOn(data)
	}
}

func (p *Peer) handOn(data []byte) {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	if p.h.Message != nil && !p.silent.Load() {
		p.h.Message(data)
	}
}

// tellTooLarge reports the size of a message that was dropped.
func (p *Peer) tellTooLarge(size int) {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	if p.h.TooLarge != nil && !p.silent.Load() {
		p.h.TooLarge(size)
	}
}

var errSkipped = errors.New("message dropped")

// largeBuffers are for the few messages larger than readBuffer: the session with its tools, the end of a long answer.
var largeBuffers = sync.Pool{New: func() any { return new(make([]byte, largeBuffer)) }}

// next reads one message into a slice of its own.
func (p *Peer) next(stream datachannel.Reader, small []byte) ([]byte, error) {
	p.channel.stall.reading.Store(true)
	defer p.channel.stall.reading.Store(false)
	buf := small
	n, _, err := stream.ReadDataChannel(buf)
	// Pion keeps a message that does not fit but does not tell its size. The receive window bounds it.
	if errors.Is(err, io.ErrShortBuffer) {
		large := largeBuffers.Get().(*[]byte)
		defer largeBuffers.Put(large)
		buf = *large
		n, _, err = stream.ReadDataChannel(buf)
	}
	for errors.Is(err, io.ErrShortBuffer) && len(buf) < 2*receiveBufferSize {
		buf = make([]byte, 4*len(buf))
		n, _, err = stream.ReadDataChannel(buf)
	}
	if err != nil {
		return nil, err
	}
	stats := p.pc.SCTP().Stats()
	p.channel.stall.mark(stats.BytesReceived, stats.BytesSent)
	if n > p.maxMessage {
		p.log.Warn("data channel message dropped: too large", "bytes", n, "limit", p.maxMessage)
		p.tellTooLarge(n)
		return nil, errSkipped
	}
	return append(make([]byte, 0, n), buf[:n]...), nil
}

// MaxMessageSize returns the largest message in bytes that the remote accepts (a=max-message-size, RFC 8841): 65535 if
// it named none, 0 if it has no data channel. It is known once both descriptions are set.
func (p *Peer) MaxMessageSize() int { return int(p.channel.limit.Load()) }

// Send sends one text message, after those sent before. It blocks until the data channel is open and its buffered
// amount is below 1 MiB. Errors: ErrTooLarge if data is larger than MaxMessageSize (the channel stays usable),
// ErrClosed, or ctx's cause.
func (p *Peer) Send(ctx context.Context, data []byte) error {
	if err := p.send(ctx, data); err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

func (p *Peer) send(ctx context.Context, data []byte) error {
	c := &p.channel
	if err := p.await(ctx, c.opened); err != nil {
		return err
	}
	if limit := p.MaxMessageSize(); len(data) > limit {
		return fmt.Errorf("%w: %d bytes, limit %d", media.ErrTooLarge, len(data), limit)
	}
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.done:
		return media.ErrClosed
	}
	stream := c.open()
	for stream.BufferedAmount() >= highWater {
		if err := p.await(ctx, c.low); err != nil {
			return err
		}
	}
	return p.write(stream, data)
}

// TrySend sends one text message if that takes no waiting: no other is being sent, the data channel is open and its
// buffered amount below 1 MiB. If it returns false, nothing was sent; Send then waits, or says why it cannot be sent.
func (p *Peer) TrySend(data []byte) bool {
	c := &p.channel
	stream := c.open()
	if stream == nil || len(data) > p.MaxMessageSize() || stream.BufferedAmount() >= highWater {
		return false
	}
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
	default:
		return false
	}
	return p.write(stream, data) == nil
}

// write hands a message to SCTP, which keeps a copy and does not wait. The slot is held.
func (p *Peer) write(stream *datachannel.DataChannel, data []byte) error {
	select {
	case <-p.done:
		return media.ErrClosed
	default:
	}
	if _, err := stream.WriteDataChannel(data, true); err != nil {
		return fmt.Errorf("%w: %w", media.ErrClosed, err)
	}
	return nil
}

// checkStall ends the peer if its channel is blocked.
func (p *Peer) checkStall() {
	stats := p.pc.SCTP().Stats()
	if p.channel.stall.stuck(stats.BytesReceived, stats.BytesSent) {
		p.log.Warn("data channel blocked by a message above the receive window, peer ended",
			"window", receiveBufferSize)
		p.end(media.StateFailed)
	}
}
