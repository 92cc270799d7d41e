package wsserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime/media"
)

const (
	pingEvery, pongWithin = 20 * time.Second, 20 * time.Second
	// goodbye is how long Close waits for the client's close.
	goodbye = time.Second
	// freeBytes is how large an event may be that is taken without a place in [Memory].
	freeBytes = 64 << 10
)

// Serve runs the connection on a socket, which it closes, until either side ends it. It must be called once, or
// Abandon.
func (c *Conn) Serve(conn *websocket.Conn) {
	conn.SetReadLimit(-1) // see plain.Read
	c.ServeSocket(plain{conn})
}

// ServeSocket is Serve for what is like a socket.
func (c *Conn) ServeSocket(s Socket) {
	served, written := make(chan struct{}), make(chan struct{})
	c.mu.Lock()
	c.served, c.written = served, written
	c.mu.Unlock()
	defer close(served)
	var side sync.WaitGroup
	side.Go(func() { defer close(written); c.write(s) })
	side.Go(func() { c.keepAlive(s) })
	side.Go(func() {
		<-c.ctx.Done()
		cut := time.AfterFunc(goodbye, func() { _ = s.CloseNow() })
		_ = s.Close() // a client that is gone answers nothing
		cut.Stop()
		_ = s.CloseNow()
	})
	c.h.Reach(media.StepChannel)
	c.state(media.StateConnected)
	if c.h.Open != nil {
		c.h.Open()
	}
	c.read(s)
	c.state(c.final)
	c.cancel()
	side.Wait()
}

// read takes what the client sends until the connection ends.
func (c *Conn) read(s Socket) {
	for {
		data, tooLarge, err := s.Read(context.Background()) // ending its context would cut the connection
		switch {
		case err != nil:
			state := media.StateFailed
			if _, polite := errors.AsType[websocket.CloseError](err); polite {
				state = media.StateClosed
			}
			c.end(state)
			return
		case tooLarge > 0:
			if c.h.TooLarge != nil {
				c.h.TooLarge(tooLarge)
			}
		default:
			c.takeWithin(data)
		}
	}
}

// takeWithin takes an event once there is memory for it.
func (c *Conn) takeWithin(data []byte) {
	if c.memory != nil && len(data) > freeBytes {
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		go func() {
			select {
			case <-c.done:
				cancel()
			case <-ctx.Done():
			}
		}()
		release, err := c.memory(ctx, int64(len(data)))
		if err != nil {
			return // the connection has ended
		}
		defer release()
	}
	c.take(data)
}

// write sends what waits, until the connection has ended, or the queue and with it the call.
func (c *Conn) write(s Socket) {
	for {
		data, last := c.out.next()
		switch {
		case data != nil:
			if err := s.Write(c.ctx, data); err != nil {
				select {
				case <-c.done: // reading knows better why
				case <-time.After(goodbye):
					c.end(media.StateFailed)
				}
				_ = s.CloseNow()
				return
			}
			continue
		case last:
			return
		}
		select {
		case <-c.out.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

// keepAlive notices a client that is gone.
func (c *Conn) keepAlive(s Socket) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, pongWithin)
		err := s.Ping(ctx)
		cancel()
		if err != nil && c.ctx.Err() == nil {
			c.end(media.StateFailed)
			_ = s.CloseNow()
			return
		}
	}
}

// Socket is a WebSocket that carries text, or what is like one.
type Socket interface {
	// Read returns the next message, or how large it is if it is larger than MaxEvent.
	Read(ctx context.Context) (data []byte, tooLarge int, err error)
	Write(ctx context.Context, data []byte) error
	Ping(ctx context.Context) error
	// Close says goodbye, CloseNow does not.
	Close() error
	CloseNow() error
}

// plain is a socket of the library.
type plain struct{ *websocket.Conn }

func (s plain) Read(ctx context.Context) (data []byte, tooLarge int, err error) {
	_, r, err := s.Reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.LimitReader(r, MaxEvent+1))
	if err != nil || len(data) <= MaxEvent {
		return data, 0, err
	}
	rest, err := io.Copy(io.Discard, r)
	return nil, len(data) + int(rest), err
}

func (s plain) Write(ctx context.Context, data []byte) error {
	return s.Conn.Write(ctx, websocket.MessageText, data)
}

func (s plain) Close() error { return s.Conn.Close(websocket.StatusNormalClosure, "") }
