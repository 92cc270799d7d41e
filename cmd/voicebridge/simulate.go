package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/realtime/simulator"
)

// simulateCommand is the command simulate. It reads none of the other settings.
type simulateCommand struct {
	Listen string `help:"Address of the simulator." default:"127.0.0.1:8090" placeholder:"HOST:PORT"`
}

// Run serves the simulator until the process is told to stop.
func (s *simulateCommand) Run(p *process) error {
	cfg, err := p.alone("simulate")
	if err != nil {
		return err
	}
	log := newLogger(cfg, p.stderr)
	sim, err := simulator.New(simulator.Config{Logger: log})
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(p.ctx, "tcp", s.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), sim.Run(ended()))
	}
	if host, _, err := net.SplitHostPort(ln.Addr().String()); err == nil && !isLoopback(host) {
		log.Warn("the simulator can be reached from other machines and asks for no key", "address", ln.Addr().String())
	}
	base := "http://" + ln.Addr().String() + "/v1"
	if _, err := fmt.Fprintf(p.stdout, "The Realtime simulator answers on %s\nTo use it from voicebridge or any Realtime client, set\n"+
		"  OPENAI_BASE_URL=%s OPENAI_API_KEY=simulator\n", base, base); err != nil {
		return errors.Join(err, ln.Close(), sim.Run(ended()))
	}
	return serveSimulator(p.ctx, sim, ln, log)
}

// ended returns a context that has ended, for an orderly end of what was made
// but not started.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// simulatorGrace bounds how long running requests may take at the end.
const simulatorGrace = 5 * time.Second

// serveSimulator serves sim on ln until ctx ends and joins everything.
func serveSimulator(ctx context.Context, sim *simulator.Server, ln net.Listener, log *slog.Logger) error {
	srv := &http.Server{
		Handler: sim, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return sim.Run(ctx) })
	g.Go(func() error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve simulator: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stop, done := context.WithTimeout(context.WithoutCancel(ctx), simulatorGrace)
		defer done()
		if srv.Shutdown(stop) != nil {
			return srv.Close()
		}
		return nil
	})
	return g.Wait()
}
