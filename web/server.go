package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/toolkit"
)

// store is all that this package needs of the saved threads; *persistence.Store
// is one.
type store interface {
	threadStore
	messageStore
	watcher
	conductorStore
	usageStore
	pinger
}

// Config is what a [Server] is made of. Calls, Chat, Queue, Store and Page are needed.
type Config struct {
	Calls voiceCalls
	// Chat answers by text; *chat.Coordinator does.
	Chat textChat
	// Queue keeps what waits; *queue.Queue does.
	Queue messageQueue
	Store store
	// Page holds the built page with index.html at its root.
	Page fs.FS
	// Tools returns the server's tools of a new call; nil means none.
	Tools    func(ctx context.Context, owner, threadID string) (*toolkit.Registry, error)
	Upstream Upstream
	// TextModels are the models that answer typed messages.
	TextModels []Model
	Version    string
	// ClientTools are the names of the tools that the page is to declare in its calls
	// and run itself, within the limits of Code.
	ClientTools []string
	Code        CodeLimits
	// Pyodide is where the page gets Python from; nil is nowhere.
	Pyodide *Pyodide
	Auth    Auth
	// ICEServers are told to browsers by GET /api/config.
	ICEServers []ICEServer
	// AllowedOrigins are the origins beside our own whose pages may use the API:
	// scheme://host[:port].
	AllowedOrigins []string
	// Loopback is set when the server listens on loopback: then only loopback
	// names and the allowed origins' hosts are served.
	Loopback bool
	// TrustedProxies are the addresses whose X-Forwarded-For is believed, beside
	// loopback.
	TrustedProxies []netip.Prefix
	Limits         Limits
	// ShutdownTimeout bounds how long [Server.Run] waits for requests and sockets
	// after its context has ended; zero means 10 s.
	ShutdownTimeout time.Duration
	Metrics         *Metrics // nil makes new ones
	Logger          *slog.Logger
}

func (c Config) validate() error {
	var problems []error
	if c.Calls == nil {
		problems = append(problems, errors.New("web: Calls is missing"))
	}
	if c.Chat == nil {
		problems = append(problems, errors.New("web: Chat is missing"))
	}
	if c.Queue == nil {
		problems = append(problems, errors.New("web: Queue is missing"))
	}
	if c.Store == nil {
		problems = append(problems, errors.New("web: Store is missing"))
	}
	if c.Page == nil {
		problems = append(problems, errors.New("web: Page is missing"))
	}
	if !c.Loopback && !c.Auth.Required() {
		problems = append(problems, errors.New("web: off loopback there must be authentication"))
	}
	return errors.Join(problems...)
}

// Server is the HTTP side of voicebridge. Safe for concurrent use.
type Server struct {
	cfg     Config
	echo    *echo.Echo
	calls   voiceCalls
	chat    textChat
	queue   messageQueue
	store   store
	page    *page
	openAPI []byte
	auth    *authenticator
	origins *origins
	limits  *limits
	sockets *sockets
	// conductors are the sessions of apps that speak themselves.
	conductors *conductors
	metrics    *Metrics
	log        *slog.Logger

	now          func() time.Time
	socketTiming socketTiming
	streamTiming streamTiming
	bodyTimeout  time.Duration
	routeNames   map[string]bool
	closing      atomic.Bool
}

// New checks the configuration and builds the routes. Errors name all that is
// wrong with it.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newServer(cfg, time.Now)
}

func newServer(cfg Config, now func() time.Time) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	if cfg.ShutdownTimeout <= 0 {
		cfg.ShutdownTimeout = 10 * time.Second
	}
	s := &Server{
		cfg: cfg, calls: cfg.Calls, chat: cfg.Chat, queue: cfg.Queue, store: cfg.Store, sockets: newSockets(), conductors: newConductors(now), metrics: cfg.Metrics, log: cfg.Logger, now: now,
		limits:       newLimits(cfg.Limits.withDefaults(), cfg.Calls, cfg.Auth.Required(), now),
		socketTiming: socketTiming{pingEvery: pingEvery, pingTimeout: pingTimeout, write: socketWrite},
		bodyTimeout:  bodyTimeout,
		streamTiming: streamTiming{keepAlive: keepAlive, write: streamWrite},
	}
	var errAuth, errOrigins, errPage, errSpec error
	s.auth, errAuth = newAuthenticator(cfg.Auth, now)
	s.origins, errOrigins = newOrigins(cfg.AllowedOrigins, cfg.Loopback)
	s.page, errPage = newPage(cfg.Page)
	s.openAPI, errSpec = openAPIDocument()
	if err := errors.Join(errAuth, errOrigins, errPage, errSpec, s.metrics.watch(cfg.Calls, cfg.Chat, s.sockets, cfg.Store)); err != nil {
		return nil, fmt.Errorf("set up web: %w", err)
	}
	s.echo = s.newEcho()
	s.use()
	s.routes()
	s.routeNames = make(map[string]bool)
	for _, r := range s.echo.Routes() {
		s.routeNames[r.Path] = true
	}
	return s, nil
}

func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.writeError
	trust := []echo.TrustOption{echo.TrustLoopback(true), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range s.cfg.TrustedProxies {
		p = p.Masked()
		trust = append(trust, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	e.IPExtractor = echo.ExtractIPFromXFFHeader(trust...)
	return e
}

// routes registers every route there is. openapi.yaml describes the same.
func (s *Server) routes() {
	e, user, secret := s.echo, s.authenticated, s.authenticatedOrSecret

	e.POST("/v1/realtime/calls", s.startCall, secret)
	e.POST("/v1/realtime/calls/:call_id/hangup", s.hangUpCall, secret)
	e.POST("/v1/realtime/client_secrets", s.createSecret, user)

	e.GET("/api/threads", s.listThreads, user)
	e.POST("/api/threads", s.createThread, user)
	e.GET("/api/threads/:id", s.readThread, user)
	e.PATCH("/api/threads/:id", s.renameThread, user)
	e.DELETE("/api/threads/:id", s.deleteThread, user)
	e.GET("/api/threads/:id/messages", s.listMessages, user)
	e.POST("/api/threads/:id/messages", s.postMessage, user)
	e.GET("/api/threads/:id/messages/stream", s.resumeStream, user)
	e.GET("/api/threads/:id/stream", s.resumeStream, user)
	e.POST("/api/threads/:id/interrupt", s.interruptTurn, user)
	e.GET("/api/threads/:id/export", s.exportThread, user)
	e.POST("/api/threads/:id/reset", s.resetThread, user)
	e.GET("/api/threads/:id/ws", s.watchThread, user)
	e.GET("/api/sessions/:id/ws", s.watchThread, user)
	for _, thread := range []string{"/api/threads/:id", "/api/sessions/:id"} {
		s.queueRoutes(thread)
	}

	e.POST("/text/session", s.createTextSession, user)
	e.GET("/text/session/:id", s.readTextSession, user)
	e.DELETE("/text/session/:id", s.deleteTextSession, user)
	e.POST("/text/session/:id/message", s.postSessionMessage, user)
	e.POST("/text/session/:id/instructions", s.postSessionInstructions, user)
	e.POST("/text/session/:id/tool-output", s.postToolOutput, user)

	e.GET("/conductor", s.conduct, user)

	e.POST("/api/session", s.signIn)
	e.DELETE("/api/session", s.signOut)
	e.GET("/api/config", s.readConfig, user)
	e.GET("/api/tools", s.listTools, user)
	e.GET("/api/models", s.listModels, user)
	e.GET("/api/usage", s.readUsage, user)

	e.GET("/healthz", s.healthz)
	e.GET("/readyz", s.readyz)
	e.GET("/metrics", echo.WrapHandler(s.metrics.handler()), user)
	e.GET("/openapi.json", s.serveOpenAPI)

	e.GET(pyodidePath+":file", s.servePyodide)
	for _, path := range s.page.paths() {
		e.GET(path, s.serveFile)
		e.HEAD(path, s.serveFile)
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Run serves until ctx ends, then refuses new work, closes the sockets as going
// away and waits for running requests. It closes ln and blocks until nothing of
// it runs any more. The error is nil after an orderly end.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	s.closing.Store(true)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout)
	defer cancel()
	s.sockets.close(stop)
	err := srv.Shutdown(stop)
	if err != nil {
		s.log.Warn("requests were cut off at shutdown", "error", err)
		err = srv.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("stop HTTP: %w", err)
	}
	return nil
}
