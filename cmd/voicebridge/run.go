package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/cmd/voicebridge/internal/certificate"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/persistence/spool"
	"voicebridge/realtime/rtc"
	"voicebridge/thread"
	"voicebridge/web"
)

// recoverEvery is how often to look for processes that have died.
const recoverEvery = 5 * time.Second

// serve opens everything, from the database to the listener, and runs it until ctx ends.
func serve(ctx context.Context, cfg config.Config, log *slog.Logger, out io.Writer) (err error) {
	a := &app{cfg: cfg, log: log, metrics: web.NewMetrics(), instance: persistence.NewID()}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.start(ctx, out); err != nil {
		if ctx.Err() == nil {
			return err
		}
		log.Info("stopped during the start", "error", err)
		return nil
	}
	return a.run(ctx)
}

// start opens everything and prints the address.
func (a *app) start(ctx context.Context, out io.Writer) error {
	if err := a.open(ctx); err != nil {
		return err
	}
	if err := a.listen(ctx); err != nil {
		return err
	}
	page := pageURL(a.cfg.TLS, a.ln.Addr())
	if _, err := fmt.Fprintf(out, "voicebridge %s: open %s\n", buildVersion(), page); err != nil {
		return errors.Join(fmt.Errorf("write address: %w", err), a.ln.Close())
	}
	return nil
}

// open opens the parts, each after those that it depends on.
func (a *app) open(ctx context.Context) error {
	for _, open := range []func(context.Context) error{
		a.openTelemetry, a.openStore, a.openSecret, a.openMedia, a.openTools, a.openQueue, a.openTexts, a.openUpstream,
		a.openRecordings, a.openCalls, a.openHooks, a.openWeb, a.watchParts,
	} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openStore opens the database, alone (SQLite) or beside other processes (PostgreSQL), updates its
// tables and closes what a dead process left open.
func (a *app) openStore(ctx context.Context) (err error) {
	address := a.cfg.Secrets.DatabaseURL.Reveal()
	dir := spoolDir(address)
	options := a.cfg.Database
	options.Logger, options.Instance, options.NoMigrate = a.log, a.instance, true
	options.OnWrite, options.OnLost = a.observer.Write, a.observer.Lost
	options.Assistants = a.cfg.Fixed
	options.Rescue = func(ctx context.Context, s *persistence.Store) error { return spool.Recover(ctx, dir, s, a.log) }
	if a.store, err = persistence.Open(ctx, address, options); err != nil {
		return err
	}
	a.onClose(a.store.Close)
	if err := a.store.Serve(ctx); err != nil {
		return err
	}
	if err := a.recoverDead(ctx, dir); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return a.openSpool(dir)
}

func (a *app) openSecret(ctx context.Context) error { return readSecret(ctx, &a.cfg, a.store) }

func (a *app) openMedia(context.Context) (err error) {
	if a.media, err = rtc.New(a.mediaConfig()); err != nil {
		return fmt.Errorf("set up media (VOICEBRIDGE_UDP_PORT, VOICEBRIDGE_PUBLIC_IPS, VOICEBRIDGE_ICE_SERVERS): %w", err)
	}
	a.onClose(a.media.Close)
	return nil
}

func (a *app) openTools(ctx context.Context) (err error) {
	if a.tools, err = openTools(ctx, a.cfg, a.store, a.log); err != nil {
		return err
	}
	a.onClose(a.tools.close)
	_, err = a.tools.registry(ctx, "", assistant.Assistant{}) // invalid tools prevent the start
	return err
}

func (a *app) openUpstream(ctx context.Context) (err error) {
	if a.up, err = openUpstream(ctx, a.cfg, a.media, a.texts.Ask, a.log); err != nil {
		return err
	}
	a.onClose(a.up.close)
	for _, notice := range a.cfg.Notices {
		a.log.Warn("setting without effect", "notice", notice)
	}
	if a.up.note != "" {
		a.log.Warn("the upstream is the simulator", "note", a.up.note)
	}
	return nil
}

func (a *app) openTexts(context.Context) (err error) {
	a.texts, err = openChat(
		a.cfg, a.store, a.spool, a.tools, []chat.TurnObserver{a.metrics, a.observer, a.queue}, a.observer.Tool, a.log,
	)
	return err
}

func (a *app) openCalls(context.Context) (err error) {
	a.calls, err = bridge.NewCalls(a.bridgeConfig())
	a.door = chat.NewDoor(a.texts, a.calls)
	return err
}

func (a *app) openWeb(context.Context) (err error) {
	a.server, err = web.New(a.webConfig())
	return err
}

// listen takes the address last, when everything can answer.
func (a *app) listen(ctx context.Context) (err error) {
	if a.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", a.cfg.Listen); err != nil {
		return fmt.Errorf("%w (choose another address with --listen or VOICEBRIDGE_LISTEN)", err)
	}
	if t := a.cfg.TLS; t.On() {
		if a.certificate, err = certificate.Open(t.CertFile, t.KeyFile, a.log); err != nil {
			return errors.Join(err, a.ln.Close())
		}
		a.ln = tls.NewListener(a.ln, a.certificate.TLS())
	}
	a.findPrivateURL(ctx)
	a.store.Cluster.Announce(ctx, a.reachedAt)
	return nil
}

// run runs the parts until ctx ends or one of them fails. Calls and text turns end first; what they
// depend on, and the sockets that announce their end, end after them.
func (a *app) run(ctx context.Context) error {
	under, endUnder := context.WithCancel(context.WithoutCancel(ctx))
	defer endUnder()
	saving, endSaving := context.WithCancel(context.WithoutCancel(ctx))
	defer endSaving()
	a.up.running = true
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer endUnder()
		var writing errgroup.Group
		writing.Go(func() error { return a.spool.Run(saving) })
		var above errgroup.Group
		above.Go(func() error { return a.calls.Run(ctx) })
		above.Go(func() error { return a.texts.Run(ctx) })
		above.Go(func() error { return a.queue.Run(ctx, a.door) })
		err := above.Wait()
		endSaving()
		return errors.Join(err, writing.Wait()) // what is in its file is not lost
	})
	g.Go(func() error { return a.server.Run(under, a.ln) })
	g.Go(func() error { return a.serveOperators(under) })
	g.Go(func() error { return a.tools.run(under) })
	g.Go(func() error { return a.hooks.Run(under) })
	g.Go(func() error { return a.dialer().Run(ctx) })
	g.Go(func() error { return a.up.run(under) })
	g.Go(func() error { return a.keepRecordings(under) })
	g.Go(func() error { return a.recoverOthers(ctx) })
	g.Go(func() error { return a.beginAgain(ctx) })
	g.Go(func() error { return a.expire(ctx) })
	g.Go(func() error { return a.refreshTools(ctx) })
	finished := make(chan error, 1)
	go func() { finished <- g.Wait() }()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		a.server.Drain()
		a.log.Info("stopping", "calls", a.calls.Count())
	}
	return waitForEnd(finished, endUnder, a.cfg.Shutdown)
}

// recoverOthers closes what other processes of the database leave open when they die. With SQLite
// there are none.
func (a *app) recoverOthers(ctx context.Context) error {
	tick := time.Tick(recoverEvery)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if _, err := a.store.Recover(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("calls of dead processes not closed", "error", err)
		}
	}
}

// refreshTools updates live calls when tools have been added or removed.
func (a *app) refreshTools(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.tools.changed:
			a.calls.RefreshTools(ctx)
		}
	}
}

// waitForEnd gives calls the time limit to end, and then everything below them as long again.
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

// recoverTries is how often to try at the start: other processes write meanwhile, and a deadlock with one is over at
// once.
const recoverTries = 5

// recoverDead saves what dead processes left in their spools in dir, and closes what they left open.
func (a *app) recoverDead(ctx context.Context, dir string) error {
	_, err := backoff.Retry(ctx, func() ([]records.Call, error) {
		if err := spool.Recover(ctx, dir, a.store, a.log); err != nil {
			return nil, err
		}
		return a.store.Recover(ctx)
	}, backoff.WithMaxTries(recoverTries))
	return err
}

// openSpool makes the queue in which what is said waits for the database.
func (a *app) openSpool(dir string) (err error) {
	cfg := spool.Config{
		Store: a.store, Dir: dir, Logger: a.log,
		Observe: func(t spool.Attempt) { a.observer.Saved(t.Ended.Sub(t.Due), t.InFile, t.Err == nil, t.Changes) },
		Saved: func(key thread.Key, messages []thread.Message) {
			if a.calls != nil {
				a.calls.Saved(key, messages)
			}
		},
		Delayed: func(pending int) {
			if a.calls != nil {
				a.calls.StorageDelayed(pending)
			}
		},
	}
	if a.spool, err = spool.New(cfg); err != nil {
		a.log.Warn("what is said while the database is away is kept in memory only", "folder", dir, "error", err)
		cfg.Dir = ""
		a.spool, err = spool.New(cfg)
	}
	return err
}
