package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
)

// Timings of a socket.
const (
	pingEvery   = 20 * time.Second
	pingTimeout = 10 * time.Second
	socketWrite = 10 * time.Second // one message, before the client counts as too slow
)

// Reasons for which a socket ends, as causes of its context.
var (
	errSocketShutdown = errors.New("server is shutting down")
	errSocketGone     = errors.New("client is gone")
	errSocketSlow     = errors.New("client is too slow")
	errSocketTaken    = errors.New("another connection took over this session")
)

// statusTaken is the status with which a socket ends whose session has gone to
// another connection. A client that gets it should not connect again by itself.
const statusTaken websocket.StatusCode = 4409

// checkSocket refuses a request that is no WebSocket handshake, or one of a
// foreign page.
func (s *Server) checkSocket(c echo.Context) error {
	if !c.IsWebSocket() {
		c.Response().Header().Set(echo.HeaderUpgrade, "websocket")
		return &apiError{Status: http.StatusUpgradeRequired, Code: "upgrade_required", Message: "This is a WebSocket: connect with ws:// or wss://."}
	}
	return s.origins.checkSocket(c.Request())
}

// openSocket upgrades the connection within the owner's limits and runs the
// socket until it ends. again says how a client comes back.
func (s *Server) openSocket(c echo.Context, key persistence.Key, again string, run func(context.Context, *socket) error) error {
	release, ok := s.limits.sockets.take(key.Owner)
	if !ok {
		return tooMany("too_many_sockets", "Too many sockets are open. Close one first.", retryFull)
	}
	defer release()
	ctx, leave, ok := s.sockets.enter(context.WithoutCancel(c.Request().Context()))
	if !ok {
		return errShuttingDown
	}
	defer leave()
	conn, err := websocket.Accept(c.Response(), c.Request(), &websocket.AcceptOptions{OriginPatterns: s.origins.patterns()})
	if err != nil {
		// Accept has answered the client.
		s.log.Debug("socket refused", "error", err, "request_id", requestID(c))
		return nil
	}
	cause := run(ctx, &socket{conn: conn, timing: s.socketTiming, again: again, limit: maxSocketRead, unread: make(chan struct{})})
	s.metrics.socketClosed(cause)
	s.log.Debug("socket closed", "thread_id", key.Thread, "reason", cause, "request_id", requestID(c))
	return nil
}

// socketTiming holds the timings, which tests shorten.
type socketTiming struct {
	pingEvery, pingTimeout, write time.Duration
	slow                          func() // told when a client counts as too slow; may be nil
}

// socket is one client on a WebSocket.
type socket struct {
	conn   *websocket.Conn
	timing socketTiming
	again  string // how a client comes back, for the reason of a close
	// limit is the size of one message of the client, in bytes; a larger one ends
	// the socket. -1 leaves it to take.
	limit int64
	// take handles one message, one at a time; nil drops them all.
	take func(kind websocket.MessageType, message io.Reader) error

	side sync.WaitGroup
	end  context.CancelCauseFunc
	// unread is closed when reading has ended, with readErr set.
	unread  chan struct{}
	readErr error
}

// run tells the client until something ends it, closes the connection with a
// reason, joins its goroutines and returns why it ended.
func (k *socket) run(ctx context.Context, tell func(context.Context) error) error {
	ctx, k.end = context.WithCancelCause(ctx)
	defer k.end(nil)
	// Reading has a context of its own: ending it tears the connection down
	// without a close frame.
	k.side.Go(k.read)
	k.side.Go(func() { k.keepAlive(ctx) })
	err := tell(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	k.end(err)
	if !errors.Is(err, errSocketGone) { // who is gone does not answer a goodbye
		_ = k.conn.Close(k.closeReason(err))
	}
	_ = k.conn.CloseNow()
	k.side.Wait()
	return err
}

func (k *socket) closeReason(err error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(err, errSocketShutdown), errors.Is(err, persistence.ErrClosed):
		return websocket.StatusGoingAway, errSocketShutdown.Error()
	case errors.Is(err, errSocketSlow):
		return websocket.StatusTryAgainLater, "too slow: " + k.again
	case errors.Is(err, errSocketTaken):
		return statusTaken, errSocketTaken.Error()
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
func (k *socket) read() {
	defer close(k.unread)
	k.conn.SetReadLimit(k.limit)
	for {
		kind, r, err := k.conn.Reader(context.Background())
		if err == nil && k.take != nil {
			err = k.take(kind, r)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			k.readErr = err
			k.end(fmt.Errorf("%w: %w", errSocketGone, err))
			return
		}
	}
}

// saidGoodbye reports whether the client has closed the socket by itself: it has
// read all that came before. Reading must have ended.
func (k *socket) saidGoodbye() bool {
	e, ok := errors.AsType[websocket.CloseError](k.readErr)
	return ok && e.Code != statusTaken // which would be the echo of our own
}

// keepAlive finds out that a client has vanished without a goodbye.
func (k *socket) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(k.timing.pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !k.ping() {
			return
		}
	}
}

// ping waits for the client's pong: the client has received all that was written
// before. Without one the socket ends.
func (k *socket) ping() bool {
	// Not under the socket's context: a ping that is cut off in the middle cuts
	// the connection.
	ctx, cancel := context.WithTimeout(context.Background(), k.timing.pingTimeout)
	defer cancel()
	if err := k.conn.Ping(ctx); err != nil {
		k.end(fmt.Errorf("%w: no pong", errSocketGone))
		return false
	}
	return true
}

// write sends one message. A client that does not take it in time is closed.
func (k *socket) write(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	closed := make(chan struct{})
	timer := time.AfterFunc(k.timing.write, func() {
		defer close(closed)
		if k.timing.slow != nil {
			k.timing.slow()
		}
		// The close frame waits a few seconds for the message to get through; after
		// that the connection is cut.
		_ = k.conn.Close(k.closeReason(errSocketSlow))
	})
	err = k.conn.Write(context.Background(), websocket.MessageText, data)
	if !timer.Stop() {
		<-closed
		return errSocketSlow
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSocketGone, err)
	}
	return nil
}

// sockets knows all that are open, because the HTTP server forgets a connection
// that became a socket. Safe for concurrent use.
type sockets struct {
	mu     sync.Mutex
	closed bool
	next   int
	ends   map[int]context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newSockets() *sockets { return &sockets{ends: make(map[int]context.CancelCauseFunc)} }

// enter returns a context that ends with the server; leave is called when the
// socket is done.
func (s *sockets) enter(parent context.Context) (ctx context.Context, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, false
	}
	ctx, end := context.WithCancelCause(parent)
	id := s.next
	s.next++
	s.ends[id] = end
	s.wg.Add(1)
	return ctx, func() {
		s.mu.Lock()
		delete(s.ends, id)
		s.mu.Unlock()
		end(nil)
		s.wg.Done()
	}, true
}

// close ends all sockets and waits for them until ctx ends.
func (s *sockets) close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	for _, end := range s.ends {
		end(errSocketShutdown)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (s *sockets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends)
}
