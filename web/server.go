package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/persistence/privacy"
	"voicebridge/recording"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/conductor"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
	"voicebridge/web/uistream"
)

// store is what this package needs of the saved threads; *persistence.Store implements it.
type store interface {
	threadStore
	messageStore
	watcher
	healthReader
	ownerWatcher
	callThreads
}

// recordStore is what this package needs of calls and of what they cost; *records.Store implements it.
type recordStore interface {
	usageStore
	liveCalls
	access.Records
	callLister
}

// admission is what this package needs of the database to let clients in.
type admission interface {
	access.TokenStore
	access.Rates
}

// textChat answers what users type; *chat.Door implements it.
type textChat interface {
	textTurns
	textSessions
	KeepResult(ctx context.Context, key thread.Key, r chat.ToolResult) error
}

// callThreads is what the routes of calls, conductors and text sessions need of the store.
type callThreads interface {
	EnsureThread(ctx context.Context, key thread.Key) (created bool, err error)
	TextSession(ctx context.Context, key thread.Key) (persistence.TextSession, error)
}

// Config configures a [Server]. Calls, Chat, Assistants, Queue, Store, Records, Pictures, Shares, Privacy, Hooks, CheckHook, Admission and Page are required.
type Config struct {
	Calls voiceCalls
	// Chat answers what users type; *chat.Door implements it.
	Chat textChat
	// Assistants keeps the assistants; *assistants.Store implements it. AssistantNames are what they may name.
	Assistants     assistantStore
	AssistantNames AssistantNames
	// Queue holds waiting messages; *queue.Queue implements it.
	Queue messageQueue
	Store store
	// Records keeps calls and what they cost; *records.Store implements it.
	Records recordStore
	// Pictures keeps the images of threads; *pictures.Store implements it.
	Pictures imageStore
	// Shares keeps which threads may be read by a link; *shares.Store implements it.
	Shares shareStore
	// Privacy are the kinds of data that an owner's export has, and their erasure deletes.
	Privacy []privacy.Part
	// Hooks keeps the hooks of owners; *hooked.Store implements it. CheckHook returns the URL of one as it is saved, or why it may
	// not be called.
	Hooks     hookStore
	CheckHook func(url string) (string, error)
	// Recordings has the sound of calls; nil means that calls are not recorded.
	Recordings *recording.Archive
	// Admission is what all processes of the database keep of who may come in; *admission.Store implements it.
	Admission admission
	// Page holds the built page with index.html at its root.
	Page fs.FS
	// Tools returns the server's tools for a new call with an assistant; nil means none.
	Tools func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error)
	// ToolServers are the MCP servers; nil means that there are none.
	ToolServers ToolServers
	Upstream    Upstream
	// Models are those for calls, one of each upstream, then those that answer typed messages.
	Models  []Model
	Version string
	Auth    access.Auth
	// ICEServers are sent to browsers by GET /api/config, together with those of TURN, which makes
	// passwords for an owner; TURN may be nil.
	ICEServers []ICEServer
	TURN       func(owner string) []ICEServer
	// AllowedOrigins are other origins whose pages may use the API: scheme://host[:port].
	AllowedOrigins []string
	// Loopback means that the server listens on loopback: then only loopback names and the hosts of
	// allowed origins are served.
	Loopback bool
	// TrustedProxies are the addresses, besides loopback, whose X-Forwarded-For and X-Forwarded-Prefix are trusted.
	TrustedProxies []netip.Prefix
	Limits         access.Limits
	// ShutdownTimeout limits how long [Server.Run] waits for requests and sockets after its context
	// has ended; zero means 10 s.
	ShutdownTimeout time.Duration
	Metrics         *Metrics // nil makes new ones
	// Trace returns a context with the span that the headers of a request name as its parent; nil
	// reads none.
	Trace func(ctx context.Context, header http.Header) context.Context
	// StopWithReader makes a turn that useChat has begun end when its client goes away.
	StopWithReader bool
	Logger         *slog.Logger
}

func (c Config) validate() error {
	var problems []error
	for _, part := range []struct {
		name    string
		missing bool
	}{{"Calls", c.Calls == nil}, {"Chat", c.Chat == nil}, {"Assistants", c.Assistants == nil}, {"Queue", c.Queue == nil}, {"Store", c.Store == nil}, {"Records", c.Records == nil}, {"Pictures", c.Pictures == nil}, {"Shares", c.Shares == nil}, {"Privacy", len(c.Privacy) == 0}, {"Hooks", c.Hooks == nil || c.CheckHook == nil}, {"Admission", c.Admission == nil}, {"Page", c.Page == nil}} {
		if part.missing {
			problems = append(problems, fmt.Errorf("web: %s is missing", part.name))
		}
	}
	if !c.Loopback && !c.Auth.Required() {
		problems = append(problems, errors.New("web: authentication is required off loopback"))
	}
	return errors.Join(problems...)
}

// Server is the HTTP side of voicebridge. It is safe for concurrent use.
type Server struct {
	echo     *echo.Echo
	pipeline *pipeline
	auth     *access.Authenticator
	door     *socketDoor
	streams  *streams
	// conductors are the sessions of apps with their own voice.
	conductors      *conductor.Conductors
	shutdownTimeout time.Duration
	proxies         []netip.Prefix // Config.TrustedProxies
	// dropUnread ends the wait for clients that do not read their answers.
	dropUnread context.CancelFunc
	closing    atomic.Bool
	log        *slog.Logger
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
	limits := access.NewAllowances(cfg.Limits, cfg.Calls, cfg.Records, cfg.Admission, cfg.Auth.Required(), now)
	auth, errAuth := access.New(cfg.Auth, limits.Guesses, cfg.Admission, now)
	origins, errOrigins := access.NewOrigins(cfg.AllowedOrigins, cfg.Loopback)
	files, errPage := newPage(cfg.Page)
	open := socket.NewSet()
	if err := errors.Join(errAuth, errOrigins, errPage, cfg.Metrics.watch(cfg.Calls, cfg.Chat, open, cfg.Store)); err != nil {
		return nil, fmt.Errorf("set up web: %w", err)
	}
	unread, dropUnread := context.WithCancel(context.Background()) // it ends with the server
	s := &Server{
		auth: auth, dropUnread: dropUnread, shutdownTimeout: cfg.ShutdownTimeout, proxies: cfg.TrustedProxies, log: cfg.Logger,
		pipeline: &pipeline{
			origins: origins, proxies: cfg.TrustedProxies, refuseForwarded: !cfg.Auth.Required(), metrics: cfg.Metrics, errors: errorWriter{cfg.Logger}, page: files,
			bodyTimeout: bodyTimeout, routeNames: make(map[string]bool), unread: unread, trace: cfg.Trace, log: cfg.Logger,
		},
		door:    &socketDoor{origins: origins, limit: limits.Sockets, auth: auth, open: open, metrics: cfg.Metrics, timing: socket.DefaultTiming(), log: cfg.Logger},
		streams: &streams{cfg.Chat, cfg.Store, limits.Sockets, auth, uistream.DefaultTiming(), cfg.Logger},
		conductors: conductor.New(conductor.Config{
			Chat: cfg.Chat, Admit: limits.Text, Now: now, Logger: cfg.Logger,
			Explain: func(err error) *problem.Error { return classify(orThread(err)) },
		}),
	}
	s.echo = newEcho(cfg.TrustedProxies, s.pipeline.errors)
	s.pipeline.use(s.echo)
	pictures := &images{cfg.Store, cfg.Pictures, limits.ImageBytesPerOwner}
	chosen := &assistantFinder{cfg.Assistants, cfg.Store}
	events, threadNames := securityLog{cfg.Logger}, names{cfg.Store}
	remove := &remover{cfg.Calls, cfg.Chat}
	r := router{Echo: s.echo, user: identified(auth, limits.Bodies, threadNames, events, false), userOrSecret: identified(auth, limits.Bodies, threadNames, events, true), text: admits(limits.Text), thread: admits(limits.Thread)}
	// openapi.yaml describes the same routes.
	voice := &calls{cfg.Calls, limits, cfg.Metrics, cfg.Store, cfg.Chat, remove, auth.Secrets, cfg.Recordings != nil, chosen}
	for _, h := range []interface{ routes(r router) }{
		voice,
		&recorded{cfg.Recordings, cfg.Calls, voice, cfg.Store},
		&callSockets{voice, s.door, &relay{s.door, cfg.Calls}},
		&clientSecrets{auth, cfg.Store, cfg.Calls, chosen, cfg.Upstream.Model, now, events, cfg.Recordings != nil},
		&threads{cfg.Store, cfg.Calls, remove, chosen, events},
		&assistantRoutes{cfg.Assistants, cfg.AssistantNames, cfg.Limits, events},
		&messages{cfg.Store, cfg.TrustedProxies},
		&turns{cfg.Calls, cfg.Chat, cfg.Store, pictures, s.streams, &chats{cfg.Chat, cfg.Store, s.streams, cfg.StopWithReader}},
		pictures,
		s.streams,
		&exports{cfg.Store, cfg.Logger},
		&shared{cfg.Shares, cfg.Store, pictures, cfg.Logger},
		&threadCalls{cfg.Store, cfg.Records},
		&ownersData{cfg.Privacy, cfg.Store, remove, events, cfg.Logger},
		&threadSockets{cfg.Store, cfg.Queue, cfg.Chat, s.door, cfg.Logger},
		&ownerSockets{cfg.Store, cfg.Records, s.door},
		&queues{cfg.Queue, pictures, now},
		&hookRoutes{cfg.Hooks, cfg.CheckHook},
		&textSessionRoutes{cfg.Chat, remove, chosen, cfg.Limits},
		&conductors{cfg.Store, chosen, limits, s.conductors, s.door},
		&pageSessions{auth, now, events, cfg.TrustedProxies},
		&pageSettings{cfg.Upstream, cfg.Version, cfg.Auth.Required(), cfg.ICEServers, cfg.TURN, cfg.Recordings != nil},
		&tools{cfg.Tools, cfg.Assistants, cfg.ToolServers},
		&toolServers{cfg.ToolServers, auth, cfg.TrustedProxies, events},
		&models{cfg.Models},
		&usage{cfg.Records, now},
		&health{cfg.Store, cfg.Metrics, &s.closing, cfg.Logger},
		description{},
		&pageFiles{files},
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
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if isPlain(ln, s.proxies) {
		s.log.Warn("no TLS: tokens and conversations are sent in the clear, and browsers deny the page the microphone; put a TLS proxy in front", "address", ln.Addr().String())
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
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdownTimeout)
	defer cancel()
	defer time.AfterFunc(s.shutdownTimeout*3/4, s.dropUnread).Stop()
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
