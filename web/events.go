package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
)

// watcher is what the thread socket needs of the store.
type watcher interface {
	Watch(ctx context.Context, key persistence.Key, after int64) iter.Seq2[persistence.Event, error]
	Dropped() int64
}

// Timings of a thread socket.
const (
	pingEvery     = 20 * time.Second
	pingTimeout   = 10 * time.Second
	socketWrite   = 10 * time.Second // one event, before the client counts as too slow
	maxSocketRead = 4 << 10          // bytes of one message; the socket takes none, but clients send keep-alives
)

// Reasons for which a socket ends, as causes of its context.
var (
	errSocketShutdown = errors.New("server is shutting down")
	errSocketGone     = errors.New("client is gone")
	errSocketSlow     = errors.New("client is too slow")
)

// QueueConfig is the queue's configuration as the thread socket tells it.
type QueueConfig struct {
	Enabled      bool `json:"enabled"`
	MaxSize      int  `json:"max_size"`
	DelaySeconds int  `json:"delay_seconds"`
}

type connectedData struct {
	SessionID    string      `json:"session_id"`
	QueueLength  int         `json:"queue_length"`
	QueueConfig  QueueConfig `json:"queue_config"`
	ServerMaxSeq int64       `json:"server_max_seq"`
	// CallID is the thread's live call, null when there is none.
	CallID *string `json:"call_id"`
}

// watchThread upgrades to a socket that tells the thread's events. Without
// ?after it begins now: nothing that is newer than server_max_seq is missed.
func (s *Server) watchThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	after, err := queryInt(c, "after", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if !c.IsWebSocket() {
		c.Response().Header().Set(echo.HeaderUpgrade, "websocket")
		return &apiError{Status: http.StatusUpgradeRequired, Code: "upgrade_required", Message: "This is a WebSocket: connect with ws:// or wss://."}
	}
	if err := s.origins.checkSocket(c.Request()); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	last, err := s.store.LastSeq(ctx, key)
	if err != nil {
		return orThread(err)
	}
	if after < 0 {
		after = last
	}
	hello := connectedData{SessionID: key.Thread, QueueConfig: s.cfg.Queue, ServerMaxSeq: last}
	if id, ok := s.calls.Live(key.Owner, key.Thread); ok {
		hello.CallID = &id
	}
	return s.openSocket(c, key, after, hello)
}

func (s *Server) openSocket(c echo.Context, key persistence.Key, after int64, hello connectedData) error {
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
	k := &socket{conn: conn, timing: s.socketTiming}
	cause := k.run(ctx, func(ctx context.Context) error { return k.tell(s.store.Watch(ctx, key, after), hello) })
	s.metrics.socketClosed(cause)
	s.log.Debug("socket closed", "thread_id", key.Thread, "reason", cause, "request_id", requestID(c))
	return nil
}

// socketTiming holds the timings, which tests shorten.
type socketTiming struct {
	pingEvery, pingTimeout, write time.Duration
	slow                          func() // told when a client counts as too slow; may be nil
}

// socket is one client that watches a thread.
type socket struct {
	conn   *websocket.Conn
	timing socketTiming
}

// run tells the client until something ends it, closes the connection with a
// reason, joins its goroutines and returns why it ended.
func (k *socket) run(ctx context.Context, tell func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// Reading has a context of its own: ending it tears the connection down
	// without a close frame.
	var wg sync.WaitGroup
	wg.Go(func() { k.read(end) })
	wg.Go(func() { k.ping(ctx, end) })
	err := tell(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	end(err)
	if !errors.Is(err, errSocketGone) { // who is gone does not answer a goodbye
		_ = k.conn.Close(closeReason(err))
	}
	_ = k.conn.CloseNow()
	wg.Wait()
	return err
}

func closeReason(err error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(err, errSocketShutdown), errors.Is(err, persistence.ErrClosed):
		return websocket.StatusGoingAway, errSocketShutdown.Error()
	case errors.Is(err, errSocketSlow):
		return websocket.StatusTryAgainLater, "too slow: connect again with after=SEQ"
	case errors.Is(err, persistence.ErrNotFound):
		return websocket.StatusNormalClosure, "thread was deleted"
	case err == nil:
		return websocket.StatusNormalClosure, ""
	default:
		return websocket.StatusInternalError, "internal error: connect again with after=SEQ"
	}
}

// read takes and drops what the client sends; reading is also what handles pongs
// and the client's close.
func (k *socket) read(end context.CancelCauseFunc) {
	k.conn.SetReadLimit(maxSocketRead)
	for {
		_, r, err := k.conn.Reader(context.Background())
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			end(fmt.Errorf("%w: %w", errSocketGone, err))
			return
		}
	}
}

// ping finds out that a client has vanished without a goodbye.
func (k *socket) ping(ctx context.Context, end context.CancelCauseFunc) {
	ticker := time.NewTicker(k.timing.pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Not under ctx: a ping that is cut off in the middle cuts the connection.
		pctx, cancel := context.WithTimeout(context.Background(), k.timing.pingTimeout)
		err := k.conn.Ping(pctx)
		cancel()
		if err != nil {
			end(fmt.Errorf("%w: no pong", errSocketGone))
			return
		}
	}
}

// tell writes the greeting and then the events as they come.
func (k *socket) tell(events iter.Seq2[persistence.Event, error], hello connectedData) error {
	data, err := json.Marshal(hello)
	if err != nil {
		return fmt.Errorf("encode greeting: %w", err)
	}
	if err := k.write(persistence.Event{Type: "connected", Data: data}); err != nil {
		return err
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		if err := k.write(event); err != nil {
			return err
		}
	}
	return nil
}

// write sends one event. The events wait in the store while a client is slow;
// one that does not take an event in time is closed.
func (k *socket) write(event persistence.Event) error {
	data, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	closed := make(chan struct{})
	timer := time.AfterFunc(k.timing.write, func() {
		defer close(closed)
		if k.timing.slow != nil {
			k.timing.slow()
		}
		// The close frame waits a few seconds for the event to get through; after
		// that the connection is cut.
		_ = k.conn.Close(closeReason(errSocketSlow))
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
