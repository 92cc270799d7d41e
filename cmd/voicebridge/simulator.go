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
