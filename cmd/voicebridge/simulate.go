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

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/realtime/simulator"
)

// simulateCommand is the command simulate. Of the other settings it reads those of the log.
type simulateCommand struct {
	Listen      string           `help:"Address of the simulator." default:"127.0.0.1:8090" placeholder:"HOST:PORT"`
	MaxDuration time.Duration    `help:"Length of a session, as its expires_at says." default:"60m" placeholder:"TIME"`
	FaultyCalls int              `help:"Apply the faults to this many calls, counted from the first; 0: to all." placeholder:"N"`
	Faults      simulator.Faults `embed:"" group:"Faults on purpose"`
}

// Run serves the simulator until the process is told to stop.
func (s *simulateCommand) Run(p *process) error {
	log, err := p.alone("simulate")
	if err != nil {
		return err
	}
	sim, err := simulator.New(simulator.Config{
		Logger: log, MaxDuration: s.MaxDuration, Faults: s.Faults, FaultyCalls: s.FaultyCalls,
	})
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(p.ctx, "tcp", s.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), sim.Run(ended()))
	}
	if host, _, err := net.SplitHostPort(ln.Addr().String()); err == nil && !config.IsLoopback(host) {
		log.Warn("the simulator can be reached from other machines and asks for no key", "address", ln.Addr().String())
	}
	base := pageURL(config.TLS{}, ln.Addr()) + "/v1"
	const words = "The Realtime simulator answers on %s\nTo use it from voicebridge or any Realtime client, set\n" +
		"  OPENAI_BASE_URL=%s OPENAI_API_KEY=simulator\n" +
		"and for voicebridge also VOICEBRIDGE_TEXT_PROVIDER=simulator, because it takes calls only.\n"
	if _, err := fmt.Fprintf(p.stdout, words, base, base); err != nil {
		return errors.Join(err, ln.Close(), sim.Run(ended()))
	}
	return serveSimulator(p.ctx, sim, ln, log)
}

// ended returns a context that has ended. Run with it only closes what was opened.
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
