// Package socket runs WebSockets: what is told and taken in goroutines of their own,
// slow and vanished clients, a close with a reason, and the end of all at shutdown.
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

// Reasons for which a socket ends, as causes of its context.
var (
	ErrShutdown = errors.New("server is shutting down")
	ErrGone     = errors.New("client is gone")
	ErrSlow     = errors.New("client is too slow")
	ErrTaken    = errors.New("another connection took over this session")
)

// StatusTaken is the status with which a socket ends whose session has gone to
// another connection. A client that gets it should not connect again by itself.
const StatusTaken websocket.StatusCode = 4409

// Timing holds the timings of sockets, which tests shorten.
type Timing struct {
	PingEvery, PingTimeout time.Duration
	Write                  time.Duration // one message, before the client counts as too slow
	Slow                   func()        // told when a client counts as too slow; may be nil
}

// DefaultTiming are the timings of a server.
func DefaultTiming() Timing {
	return Timing{PingEvery: 20 * time.Second, PingTimeout: 10 * time.Second, Write: 10 * time.Second}
}

// Socket is one client on a WebSocket.
type Socket struct {
	// Limit is the size of one message of the client, in bytes; a larger one ends
	// the socket. -1 leaves it to Take.
	Limit int64
	// Take handles one message, one at a time; nil drops them all.
	Take func(kind websocket.MessageType, message io.Reader) error
	// Side are goroutines beside the one that tells; Run joins them.
	Side sync.WaitGroup
	// Unread is closed when reading has ended.
	Unread chan struct{}

	conn    *websocket.Conn
	timing  Timing
	again   string // how a client comes back, for the reason of a close
	end     context.CancelCauseFunc
	readErr error // set before Unread is closed
}

// New wraps a connection. again says how a client comes back after a failure.
func New(conn *websocket.Conn, timing Timing, again string) *Socket {
	return &Socket{conn: conn, timing: timing, again: again, Limit: -1, Unread: make(chan struct{})}
}

// CloseNow cuts the connection.
func (k *Socket) CloseNow() { _ = k.conn.CloseNow() }

// Run tells the client until something ends it, closes the connection with a
// reason, joins its goroutines and returns why it ended.
func (k *Socket) Run(ctx context.Context, tell func(context.Context) error) error {
	ctx, k.end = context.WithCancelCause(ctx)
	defer k.end(nil)
	// Reading has a context of its own: ending it tears the connection down
	// without a close frame.
	k.Side.Go(k.read)
	k.Side.Go(func() { k.keepAlive(ctx) })
	err := tell(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	k.end(err)
	if !errors.Is(err, ErrGone) { // who is gone does not answer a goodbye
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

// read takes what the client sends; reading is also what handles pongs and the
// client's close.
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

// SaidGoodbye reports whether the client has closed the socket by itself: it has
// read all that came before. Reading must have ended.
func (k *Socket) SaidGoodbye() bool {
	e, ok := errors.AsType[websocket.CloseError](k.readErr)
	return ok && e.Code != StatusTaken // which would be the echo of our own
}

// keepAlive finds out that a client has vanished without a goodbye.
func (k *Socket) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(k.timing.PingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !k.Ping() {
			return
		}
	}
}

// Ping waits for the client's pong: the client has received all that was written
// before. Without one the socket ends.
func (k *Socket) Ping() bool {
	// Not under the socket's context: a ping that is cut off in the middle cuts
	// the connection.
	ctx, cancel := context.WithTimeout(context.Background(), k.timing.PingTimeout)
	defer cancel()
	if err := k.conn.Ping(ctx); err != nil {
		k.end(fmt.Errorf("%w: no pong", ErrGone))
		return false
	}
	return true
}

// Write sends one message. A client that does not take it in time is closed.
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
		// The close frame waits a few seconds for the message to get through; after
		// that the connection is cut.
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
