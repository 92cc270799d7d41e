// Package socket runs WebSockets: reading and writing in separate goroutines, slow and vanished
// clients, closing with a reason, and closing all at shutdown.
package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/persistence"
	"voicebridge/web/access"
)

// Reasons why a socket ends, as causes of its context.
var (
	ErrShutdown = errors.New("server is shutting down")
	ErrGone     = errors.New("client is gone")
	ErrSlow     = errors.New("client is too slow")
	ErrTaken    = errors.New("another connection took over this session")
)

// StatusTaken is the close status of a socket whose session was taken over by another connection.
// Its client should not reconnect automatically.
const StatusTaken websocket.StatusCode = 4409

// Timing holds the timings of sockets, which tests shorten.
type Timing struct {
	PingEvery, PingTimeout time.Duration
	Write                  time.Duration // one message, before the client counts as too slow
	Slow                   func()        // called when a client is too slow; may be nil
}

// DefaultTiming returns a server's timings.
func DefaultTiming() Timing {
	return Timing{PingEvery: 20 * time.Second, PingTimeout: 10 * time.Second, Write: 10 * time.Second}
}

// Socket is one client on a WebSocket.
type Socket struct {
	// Limit limits one message from the client, in bytes; a larger one ends the socket. -1 leaves
	// it to Take.
	Limit int64
	// Take handles messages, one at a time; nil drops them all.
	Take func(kind websocket.MessageType, message io.Reader) error
	// Side tracks goroutines besides the one that writes; Run waits for them.
	Side sync.WaitGroup
	// Unread is closed when reading has ended.
	Unread chan struct{}

	conn    *websocket.Conn
	timing  Timing
	again   string // how to reconnect, for the close reason
	end     context.CancelCauseFunc
	readErr error // set before Unread is closed
}

// New wraps a connection. again says how a client reconnects after a failure.
func New(conn *websocket.Conn, timing Timing, again string) *Socket {
	return &Socket{conn: conn, timing: timing, again: again, Limit: -1, Unread: make(chan struct{})}
}

// CloseNow cuts the connection.
func (k *Socket) CloseNow() { _ = k.conn.CloseNow() }

// Run calls send, which writes to the client, until something ends it. Then it closes the connection
// with a reason, waits for its goroutines and returns why it ended.
func (k *Socket) Run(ctx context.Context, send func(context.Context) error) error {
	ctx, k.end = context.WithCancelCause(ctx)
	defer k.end(nil)
	// Reading has its own context: ending that tears down the connection without a close frame.
	k.Side.Go(k.read)
	k.Side.Go(func() { k.keepAlive(ctx) })
	err := send(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	k.end(err)
	if !errors.Is(err, ErrGone) { // a client that is gone answers no close frame
		_ = k.conn.Close(k.closeReason(err))
	}
	_ = k.conn.CloseNow()
	k.Side.Wait()
	return err
}

func (k *Socket) closeReason(err error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(err, ErrShutdown), errors.Is(err, persistence.ErrClosed):
		return websocket.StatusGoingAway, ErrShutdown.Error()
	case errors.Is(err, access.ErrEnded):
		return websocket.StatusPolicyViolation, access.ErrEnded.Error()
	case errors.Is(err, ErrSlow):
		return websocket.StatusTryAgainLater, "too slow: " + k.again
	case errors.Is(err, persistence.ErrMissed):
		return websocket.StatusTryAgainLater, "events may be lost: " + k.again
	case errors.Is(err, ErrTaken):
		return StatusTaken, ErrTaken.Error()
	case errors.Is(err, persistence.ErrNotFound):
		return websocket.StatusNormalClosure, "thread was deleted"
	case err == nil:
		return websocket.StatusNormalClosure, ""
	default:
		return websocket.StatusInternalError, "internal error: " + k.again
	}
}

// read takes what the client sends. Reading is also what handles pongs and the client's close.
func (k *Socket) read() {
	defer close(k.Unread)
	k.conn.SetReadLimit(k.Limit)
	for {
		kind, r, err := k.conn.Reader(context.Background())
		if err == nil && k.Take != nil {
			err = k.Take(kind, r)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			k.readErr = err
			k.end(fmt.Errorf("%w: %w", ErrGone, err))
			return
		}
	}
}

// ClosedByClient reports whether the client closed the socket by itself, and so has read everything
// before. Reading must have ended.
func (k *Socket) ClosedByClient() bool {
	e, ok := errors.AsType[websocket.CloseError](k.readErr)
	return ok && e.Code != StatusTaken // that would be the echo of our own
}

// keepAlive detects clients that vanished.
func (k *Socket) keepAlive(ctx context.Context) {
	ticker := time.Tick(k.timing.PingEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker:
		}
		if !k.Ping() {
			return
		}
	}
}

// Ping waits for the client's pong, which proves that it received everything written before.
// Without a pong the socket ends.
func (k *Socket) Ping() bool {
	// Not under the socket's context: a ping that is cut off cuts the connection.
	ctx, cancel := context.WithTimeout(context.Background(), k.timing.PingTimeout)
	defer cancel()
	if err := k.conn.Ping(ctx); err != nil {
		k.end(fmt.Errorf("%w: no pong", ErrGone))
		return false
	}
	return true
}

// Write sends one message. A client that does not read it in time is closed.
func (k *Socket) Write(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	closed := make(chan struct{})
	timer := time.AfterFunc(k.timing.Write, func() {
		defer close(closed)
		if k.timing.Slow != nil {
			k.timing.Slow()
		}
		// The close frame waits a few seconds for the message to go through; then the connection is
		// cut.
		_ = k.conn.Close(k.closeReason(ErrSlow))
	})
	err = k.conn.Write(context.Background(), websocket.MessageText, data)
	if !timer.Stop() {
		<-closed
		return ErrSlow
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}
