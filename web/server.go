package web

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
	"voicebridge/web/conductor"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
	"voicebridge/web/uistream"
)

// Server is the HTTP side of voicebridge. It is safe for concurrent use.
type Server struct {
	*api

	echo     *echo.Echo
	pipeline *pipeline
	// dropUnread ends the wait for clients that do not read their answers.
	dropUnread context.CancelFunc
	// types are what routes take and answer.
	types map[string][2]reflect.Type
}

// New checks the configuration and builds the routes. Its error names everything that is wrong.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newServer(cfg, time.Now)
}

func newServer(cfg Config, now func() time.Time) (*Server, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	if cfg.Trace == nil {
		cfg.Trace = func(ctx context.Context, _ http.Header) context.Context { return ctx }
	}
	if cfg.ShutdownTimeout <= 0 {
		cfg.ShutdownTimeout = 10 * time.Second
	}
	limits := access.NewAllowances(
		cfg.Limits, cfg.Store.Records, cfg.Store.Admission, cfg.Auth.Required(), now)
	auth, errAuth := access.New(cfg.Auth, limits.Guesses, cfg.Store.Admission, now)
	passed, errPasses := access.NewPasses(cfg.Auth.Secret, cfg.Store.Cluster.Now)
	origins, errOrigins := access.NewOrigins(cfg.AllowedOrigins, cfg.Loopback)
	files, errPage := newPage(cfg.Page)
	open := socket.NewSet()
	errMetrics := cfg.Metrics.watch(cfg.Calls, cfg.Chat, open, cfg.Store)
	if err := errors.Join(errAuth, errPasses, errOrigins, errPage, errMetrics); err != nil {
		return nil, fmt.Errorf("set up web: %w", err)
	}
	a := &api{
		Config: cfg, limits: limits, auth: auth, passed: passed, streaming: uistream.DefaultTiming(),
		events: securityLog{cfg.Logger}, now: now,
		door: &socketDoor{
			origins: origins, limit: limits.Sockets, auth: auth, open: open, metrics: cfg.Metrics,
			timing: socket.DefaultTiming(), log: cfg.Logger,
		},
		conductors: conductor.New(conductor.Config{
			Chat: cfg.Chat, Admit: limits.Text, Now: now, Logger: cfg.Logger,
			Explain: func(err error) *problem.Error { return classify(orThread(err)) },
		}),
	}
	unread, dropUnread := context.WithCancel(context.Background()) // it ends with the server
	s := &Server{api: a, dropUnread: dropUnread, types: map[string][2]reflect.Type{}, pipeline: &pipeline{
		origins: origins, proxies: cfg.TrustedProxies, refuseForwarded: !cfg.Auth.Required(), metrics: cfg.Metrics,
		errors: errorWriter{cfg.Logger}, page: files,
		bodyTimeout: bodyTimeout, routeNames: make(map[string]bool), unread: unread, trace: cfg.Trace, log: cfg.Logger,
	}}
	s.echo = newEcho(cfg.TrustedProxies, s.pipeline.errors)
	s.pipeline.use(s.echo)
	r := router{
		Echo: s.echo, user: a.identified(false), userOrSecret: a.identified(true), text: admits(limits.Text),
		thread:   admits(limits.Thread),
		ofThread: a.passes(a.holderOfThread, false), ofCall: a.passes(a.holderOfCall, true),
		explain: func(err error) error { return err }, noThread: errNoThread, types: s.types,
	}
	// openapi.yaml describes the same routes.
	for _, h := range []interface{ routes(r router) }{
		calls{a}, recorded{a}, callSockets{a}, phones{a}, dials{a}, clientSecrets{a}, threads{a}, assistantRoutes{a},
		messages{a}, turns{a}, images{a}, streams{a}, shared{a}, ownersData{a}, threadSockets{a}, ownerSockets{a},
		queues{a}, hookRoutes{a}, textSessions{a}, conductors{a}, pageSessions{a}, server{a}, toolServers{a}, files,
	} {
		h.routes(r)
	}
	for _, r := range s.echo.Routes() {
		s.pipeline.routeNames[r.Path] = true
	}
	return s, nil
}

func newEcho(proxies []netip.Prefix, errs errorWriter) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = errs.write
	trust := []echo.TrustOption{echo.TrustLoopback(true), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		p = p.Masked()
		trust = append(trust, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	e.IPExtractor = echo.ExtractIPFromXFFHeader(trust...)
	return e
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Drain makes the readiness check fail, so that new work goes elsewhere while calls end.
func (s *Server) Drain() { s.closing.Store(true) }

// Run serves until ctx ends. Then it refuses new work, closes the sockets as going away and waits
// for running requests. It closes ln and blocks until nothing of it is running. The error is nil
// after an orderly end.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       idleTimeout,
		ConnState:         newIdleConns(maxIdleConns).changed,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	if isPlain(ln, s.TrustedProxies) {
		s.Logger.Warn("no TLS: tokens and conversations are sent in the clear, and browsers deny the page the "+
			"microphone; put a TLS proxy in front", "address", ln.Addr().String())
	}
	var side sync.WaitGroup
	watching, stopWatching := context.WithCancel(ctx)
	side.Go(func() { s.auth.Sessions.Run(watching) })
	side.Go(func() { s.conductors.Run(watching) })
	defer side.Wait()
	defer stopWatching()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	s.Drain()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.ShutdownTimeout)
	defer cancel()
	defer time.AfterFunc(s.ShutdownTimeout*3/4, s.dropUnread).Stop()
	s.door.open.Close(stop)
	err := srv.Shutdown(stop)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were cut off: %w", err), srv.Close())
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("stop HTTP: %w", err)
	}
	return nil
}

// isPlain reports whether other machines can reach a listener without TLS. Where a proxy is trusted, that is its task.
func isPlain(ln net.Listener, proxies []netip.Prefix) bool {
	address, ok := ln.Addr().(*net.TCPAddr)
	_, tcp := ln.(*net.TCPListener) // a TLS listener has another type
	return ok && tcp && !address.IP.IsLoopback() && len(proxies) == 0
}

// idleTimeout is how long a connection may wait for another request: longer than a proxy keeps it, which otherwise
// sends a request just when the server closes the connection, and answers it with a 502. nginx and AWS keep
// connections for one minute, Caddy for two, Google for ten.
const idleTimeout = 11 * time.Minute

// maxIdleConns limits the connections that wait for another request. Browsers simply open a new
// one.
const maxIdleConns = 1000

// idleConns limits idle connections. It is safe for concurrent use.
type idleConns struct {
	limit int
	mu    sync.Mutex
	order *list.List // of net.Conn, longest idle first
	at    map[net.Conn]*list.Element
}

func newIdleConns(limit int) *idleConns {
	return &idleConns{limit: limit, order: list.New(), at: make(map[net.Conn]*list.Element)}
}

// changed is an [http.Server]'s ConnState. If there are too many idle connections, it closes the
// one that has been idle longest.
func (c *idleConns) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[conn]; e != nil {
		c.order.Remove(e)
		delete(c.at, conn)
	}
	if state != http.StateIdle && state != http.StateNew {
		return
	}
	c.at[conn] = c.order.PushBack(conn)
	if c.order.Len() > c.limit {
		oldest, _ := c.order.Remove(c.order.Front()).(net.Conn)
		delete(c.at, oldest)
		_ = oldest.Close()
	}
}
