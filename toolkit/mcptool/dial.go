package mcptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// oldProtocol is the latest MCP version whose handshake contains nothing that an older server does
// not know.
const oldProtocol = "2025-11-25"

// dial connects over a carrier.
func (s *server) dial(ctx context.Context, over carrier) (*link, error) {
	l := &link{gone: make(chan struct{}), forgotten: make(chan error, 1), transport: over}
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

// carrierOf returns a new carrier for the server's type.
func (s *server) carrierOf() carrier {
	if s.carry != nil {
		return s.carry()
	}
	switch s.config.Type {
	case TypeStdio:
		return &process{config: s.config, log: s.log, secrets: s.secrets, read: s.read}
	default:
		return s.remoteOf(s.config)
	}
}

func (s *server) remoteOf(config Server) *remote {
	return &remote{config: config, server: s}
}

// connectTo connects over the server's transport.
func (s *server) connectTo(ctx context.Context) (*link, error) {
	over := s.carrierOf()
	l, err := s.dial(ctx, over)
	if err == nil {
		return l, nil
	}
	switch over := over.(type) {
	case *process:
		switch {
		case ctx.Err() != nil: // it may be silent: connect tries the other handshake next
		case over.exited != nil && !s.old:
			return s.reachOlder(ctx)
		default:
			s.old = false
		}
	case *remote:
		if r, ok := errors.AsType[*refusal](err); ok && s.config.Type == TypeHTTP &&
			slices.Contains(unknownTransport, r.status) {
			return s.reachSSE(ctx, err)
		}
	}
	return nil, err
}

// reachOlder connects to a child with the older handshake. Servers made with Rust's SDK (rmcp), among others, end when
// their first request is not initialize.
func (s *server) reachOlder(ctx context.Context) (*link, error) {
	s.old = true
	l, err := s.dial(ctx, s.carrierOf())
	s.old = err == nil
	return l, err
}

// unknownTransport are the statuses with which servers refuse the first request of streamable HTTP that know only SSE.
var unknownTransport = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
	http.StatusUnsupportedMediaType,
}

// reachSSE falls back to SSE for an HTTP server that knows only that (MCP specification 2025-11-25,
// transports, backwards compatibility). err is why it cannot be reached otherwise.
func (s *server) reachSSE(ctx context.Context, err error) (*link, error) {
	older := s.config
	older.Type = TypeSSE
	l, sseErr := s.dial(ctx, s.remoteOf(older))
	if sseErr != nil {
		return nil, err
	}
	s.log.Info("MCP server speaks the older transport", "type", TypeSSE)
	return l, nil
}

func (s *server) sessionOptions() *mcp.ClientSessionOptions {
	if s.old {
		return &mcp.ClientSessionOptions{ProtocolVersion: oldProtocol}
	}
	return nil
}

// clientOptions are the options of the SDK's client for one connection.
func (s *server) clientOptions(l *link) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		// nil would advertise roots, which nobody here serves.
		Capabilities: &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			notify(s.changed)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			l.progress.deliver(r.Params)
		},
	}
}
