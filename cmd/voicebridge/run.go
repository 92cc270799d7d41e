package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
	"voicebridge/web"
	"voicebridge/web/ui"
)

// recoverTimeout bounds how long the start waits for the upstream to end the
// calls that an earlier process left there.
const recoverTimeout = 10 * time.Second

// recoverEvery is how often dead neighbours are looked for, recoverSoon when
// first: the database may notice a little later than we start that our
// predecessor is dead.
const (
	recoverEvery = time.Minute
	recoverSoon  = 2 * time.Second
)

// serve wires everything, from the database to the listener, and runs it until
// ctx ends.
func serve(ctx context.Context, cfg config, log *slog.Logger, out io.Writer) (err error) {
	store, left, err := openStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	media, err := rtc.New(mediaConfig(cfg, log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, media.Close()) }()

	tools, err := openTools(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tools.close()) }()
	if _, err := tools.registry(ctx, "", ""); err != nil {
		return err
	}

	up, err := openUpstream(ctx, cfg, media, log)
	if err != nil {
		return err
	}
	if up.note != "" {
		log.Warn("the upstream is the simulator", "note", up.note)
	}

	metrics := web.NewMetrics()
	inbox, err := openQueue(cfg, store, log)
	if err != nil {
		return errors.Join(err, up.close())
	}
	texts, err := openChat(cfg, store, tools, []chat.TurnObserver{metrics, inbox}, log)
	if err != nil {
		return errors.Join(err, up.close())
	}
	voice := bridgeConfig(cfg, up, media, store, tools, metrics, log)
	tellQueue(&voice, inbox, texts)
	calls, err := bridge.NewCalls(voice)
	if err != nil {
		return errors.Join(err, up.close())
	}
	server, err := web.New(webConfig(cfg, up, calls, texts, inbox, store, tools, metrics, log))
	if err != nil {
		return errors.Join(err, up.close())
	}

	hangUpLeft(ctx, calls, left)
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("%w (choose another address with --listen or VOICEBRIDGE_LISTEN)", err), up.close())
	}
	if _, err := fmt.Fprintf(out, "voicebridge %s: open %s\n", buildVersion(), pageURL(ln.Addr())); err != nil {
		return errors.Join(fmt.Errorf("write address: %w", err), ln.Close(), up.close())
	}
	return runAll(ctx, cfg, log, parts{calls: calls, texts: texts, inbox: inbox, server: server, ln: ln, tools: tools, up: up, store: store})
}

// openStore opens the database, takes it for this process alone (SQLite) or
// beside others (PostgreSQL), updates its tables and closes what a dead process
// left open. In this order: two processes must not update at the same time.
func openStore(ctx context.Context, cfg config, log *slog.Logger) (*persistence.Store, []persistence.CallRecord, error) {
	address := cfg.Secrets.DatabaseURL.Reveal()
	store, err := persistence.Open(ctx, address, persistence.Options{Logger: log, NoMigrate: true})
	if err != nil {
		return nil, nil, err
	}
	if err := store.Serve(ctx); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	if err := persistence.Migrate(ctx, address, log); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	left, err := store.Recover(ctx)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("recover: %w", err), store.Close())
	}
	return store, left, nil
}

// hangUpLeft ends upstream what a dead process left there: it would bill on.
func hangUpLeft(ctx context.Context, calls *bridge.Calls, left []persistence.CallRecord) {
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	calls.Recover(ctx, left)
}

func mediaConfig(cfg config, log *slog.Logger) rtc.Config {
	out := rtc.Config{
		UDPPort: cfg.UDPPort, PublicIPs: cfg.PublicIPs, Logger: log,
		Loopback: cfg.loopback() || needsLoopback(cfg),
	}
	for _, s := range cfg.Secrets.ICEServers {
		out.ICEServers = append(out.ICEServers, rtc.ICEServer{URLs: s.URLs, Username: s.Username, Credential: s.Credential.Reveal()})
	}
	return out
}

func bridgeConfig(cfg config, up *upstream, media *rtc.API, store *persistence.Store, tools *tools, metrics *web.Metrics, log *slog.Logger) bridge.Config {
	r := cfg.Realtime
	return bridge.Config{
		Upstream: up.driver,
		Browser:  media,
		Store:    store,
		Tools:    tools.spoken,
		Session: bridge.SessionConfig{
			Model: r.Model, Voice: r.Voice, TranscriptionModel: r.TranscriptionModel,
			Instructions: r.Instructions, AllowClientInstructions: r.AllowClientInstructions,
		},
		ReplayMessages:  cfg.Conversations.History.ReplayMessages,
		ApproveTools:    cfg.Tools.Approve,
		FillerAfter:     time.Duration(cfg.Tools.FillerSeconds) * time.Second,
		ClientPlaces:    tools.clientPlaces(cfg),
		ToolTimeout:     time.Duration(cfg.Tools.TimeoutSeconds) * time.Second,
		MaxDuration:     time.Duration(cfg.Limits.MaxCallMinutes) * time.Minute,
		Cost:            cfg.voiceCost,
		OnEnd:           func(_ persistence.Key, reason bridge.EndReason) { metrics.CallEnded(string(reason)) },
		OnDraftsDropped: metrics.DraftsDropped,
		Logger:          log,
	}
}

func webConfig(cfg config, up *upstream, calls *bridge.Calls, texts *chat.Coordinator, inbox *queue.Queue, store *persistence.Store, tools *tools, metrics *web.Metrics, log *slog.Logger) web.Config {
	proxies, _ := prefixes(cfg.TrustedProxies) // checked by validate
	l := cfg.Limits
	return web.Config{
		Calls: calls, Chat: texts, Queue: inbox, Store: store, Page: ui.Dist(), Tools: tools.spoken, Version: buildVersion(),
		Upstream:       web.Upstream{Name: up.driver.Name(), Note: up.note, Model: cfg.Realtime.Model, Voice: cfg.Realtime.Voice},
		TextModels:     cfg.shownTextModels(),
		ClientTools:    tools.ofClients(),
		Code:           web.CodeLimits{Timeout: time.Duration(cfg.Tools.Code.TimeoutSeconds) * time.Second, MemoryBytes: int64(cfg.Tools.Code.MemoryMB) << 20},
		Pyodide:        tools.pyodide,
		Auth:           cfg.auth(),
		ICEServers:     cfg.Secrets.ICEServers,
		AllowedOrigins: cfg.AllowedOrigins,
		Loopback:       cfg.loopback(),
		TrustedProxies: proxies,
		Limits: web.Limits{
			MaxCalls: l.MaxCalls, MaxCallsPerOwner: l.MaxCallsPerOwner, SetupsPerMinute: l.SetupsPerMinute,
			SignInsPerMinute: l.SignInsPerMinute, MaxSockets: l.MaxSockets, SocketsPerOwner: l.SocketsPerOwner,
		},
		ShutdownTimeout: time.Duration(cfg.ShutdownSeconds) * time.Second,
		Metrics:         metrics,
		Logger:          log,
	}
}

// parts are what runs.
type parts struct {
	calls  *bridge.Calls
	texts  *chat.Coordinator
	inbox  *queue.Queue
	server *web.Server
	ln     net.Listener
	tools  *tools
	up     *upstream
	store  *persistence.Store
}

// runAll runs the parts until ctx ends or one of them fails. Calls and text turns
// end first; what they stand on, and the sockets that tell of their end, go after
// them.
func runAll(ctx context.Context, cfg config, log *slog.Logger, p parts) error {
	under, endUnder := context.WithCancel(context.WithoutCancel(ctx))
	defer endUnder()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer endUnder()
		var above errgroup.Group
		above.Go(func() error { return p.calls.Run(ctx) })
		above.Go(func() error { return p.texts.Run(ctx) })
		above.Go(func() error { return p.inbox.Run(ctx, p.texts, p.calls) })
		return above.Wait()
	})
	g.Go(func() error { return p.server.Run(under, p.ln) })
	g.Go(func() error { return p.tools.run(under) })
	g.Go(func() error { return p.up.run(under) })
	g.Go(func() error { return p.recoverOthers(ctx, log) })
	g.Go(func() error { return p.refreshTools(ctx) })
	finished := make(chan error, 1)
	go func() { finished <- g.Wait() }()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		log.Info("stopping", "calls", p.calls.Count())
	}
	return waitForEnd(finished, endUnder, time.Duration(cfg.ShutdownSeconds)*time.Second)
}

// recoverOthers closes what other processes of the same database leave open when
// they die. With SQLite there are none.
func (p parts) recoverOthers(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTimer(recoverSoon)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Reset(recoverEvery)
		}
		left, err := p.store.Recover(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn("calls of dead processes not closed", "error", err)
		}
		hangUpLeft(ctx, p.calls, left)
	}
}

// refreshTools tells live calls of tools that have come or gone.
func (p parts) refreshTools(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.tools.changed:
			p.calls.RefreshTools(ctx)
		}
	}
}

// waitForEnd gives the calls the time limit to end, and then as long again to
// what is below them.
func waitForEnd(finished <-chan error, endUnder func(), limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for range 2 {
		select {
		case err := <-finished:
			return err
		case <-timer.C:
			endUnder()
			timer.Reset(limit)
		}
	}
	return errors.New("stop: not everything ended in time")
}

// pageURL is the address to open in a browser on this machine.
func pageURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
