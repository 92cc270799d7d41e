package mcptool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// closeTimeout is how long a session may take to end in order.
	closeTimeout = 3 * time.Second
	// moment is how long it may take until an end is noticed elsewhere.
	moment = 200 * time.Millisecond
)

// link is one connection to a server.
type link struct {
	session  *mcp.ClientSession
	progress progressBoard
	// transport is what carries the session; closed after it.
	transport carrier

	// open is done once the connection is being closed; its cause says why: running calls end then.
	open   context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed once the session has ended
	ended  error         // why; read it only after gone is closed
	once   sync.Once

	// unanswered counts the calls that timed out since the last sign of life.
	unanswered atomic.Int32
}

// maxUnanswered is how many calls in a row may time out before the server is pinged. A server that
// handles one call at a time is silent during a long one, so a single call proves nothing.
const maxUnanswered = 3

// carrier is what carries a session: a child process or an HTTP client.
type carrier interface {
	// connect returns the SDK's transport.
	connect() (mcp.Transport, error)
	// stop ends it and waits, but not forever.
	stop()
	// explain adds what the carrier knows to a session's error.
	explain(error) error
}

// oldProtocol is the latest MCP version whose handshake contains nothing that an older server does
// not know.
const oldProtocol = "2025-11-25"

// dial connects over a carrier.
func (s *server) dial(ctx context.Context, over carrier) (*link, error) {
	l := &link{gone: make(chan struct{}), transport: over}
	transport, err := l.transport.connect()
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "voicebridge", Version: s.options.Version}, s.clientOptions(l))
	session, err := client.Connect(ctx, transport, s.sessionOptions())
	if err != nil {
		l.transport.stop()
		return nil, l.transport.explain(fmt.Errorf("connect: %w", err))
	}
	l.session = session
	l.open, l.cancel = context.WithCancelCause(context.Background())
	go func() {
		l.ended = session.Wait()
		close(l.gone)
	}()
	return l, nil
}

// carrierOf returns the carrier for the server's type.
func (s *server) carrierOf() carrier {
	switch s.config.Type {
	case TypeStdio:
		return &process{config: s.config, log: s.log, secrets: s.secrets, tasks: &s.tasks}
	default:
		return &remote{config: s.config, tasks: &s.tasks, trace: s.options.Trace}
	}
}

// reach connects over the server's transport, and falls back to SSE for an HTTP server that knows
// only that (MCP specification 2025-11-25, transports, backwards compatibility).
func (s *server) reach(ctx context.Context) (*link, error) {
	over := s.carrierOf()
	l, err := s.dial(ctx, over)
	r, ok := over.(*remote)
	if err == nil || !ok || s.config.Type != TypeHTTP || !r.refused.Load() {
		return l, err
	}
	older := s.config
	older.Type = TypeSSE
	l, sseErr := s.dial(ctx, &remote{config: older, tasks: &s.tasks, trace: s.options.Trace})
	if sseErr != nil {
		return nil, err
	}
	s.log.Info("MCP server speaks the older transport", "type", TypeSSE)
	return l, nil
}

// why says why the session ended, once gone is closed.
func (l *link) why() error {
	if l.ended != nil {
		return l.transport.explain(fmt.Errorf("the connection ended: %w", l.ended))
	}
	return l.transport.explain(errors.New("the connection ended"))
}

// close ends the running calls, the session and its carrier, and waits for all of them.
func (l *link) close(why error) {
	l.once.Do(func() {
		l.cancel(why)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = l.session.Close() // it is over either way
		}()
		select {
		case <-closed:
		case <-time.After(closeTimeout):
		}
		l.transport.stop()
		<-closed
		<-l.gone
	})
}

// Codes of the SDK's own errors, which are not the server's: the client or the server is closing,
// the transport could not send. It does not export them (internal/jsonrpc2/wire.go).
var ownCodes = []int64{-32003, -32004, -32005}

// isAnswer reports whether an error of a request is the server's own answer.
func isAnswer(err error) bool {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && !slices.Contains(ownCodes, answer.Code)
}
