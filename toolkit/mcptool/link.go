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

// closeTimeout is how long a session may take to end in order.
const closeTimeout = 3 * time.Second

// link is one connection to a server.
type link struct {
	session  *mcp.ClientSession
	progress progressBoard
	// transport is what carries the session; closed after it.
	transport carrier

	// open is done, with its cause, once the connection is being closed. Running calls end then.
	open   context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed once the session has ended
	ended  error         // why; read it only after gone is closed
	once   sync.Once

	// calls is how many run over it, guarded by server.mu.
	calls int
	// forgotten gets why the server no longer knows the session; capacity 1.
	forgotten chan error

	// listed is the sum of the tools as last listed.
	listed atomic.Uint64
	// unanswered counts the calls and polls that timed out since the last sign of life.
	unanswered atomic.Int32
}

// maxUnanswered is how many calls and polls in a row may time out before the server is pinged. A server that
// handles one call at a time is silent during a long one, so a single call proves nothing.
const maxUnanswered = 3

// carrier is what carries a session: a child process or an HTTP client.
type carrier interface {
	// connect returns the SDK's transport.
	connect() (mcp.Transport, error)
	// stop ends it and waits, but not forever.
	stop()
	// explain adds to a session's error what the carrier knows about it.
	explain(error) error
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
