package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// exitWait is how long to wait for the bridge to end after one of its calls has failed.
const exitWait = time.Second

// rig makes calls through a bridge: it has both ends.
type rig struct {
	api    *rtc.API
	bridge *bridge
	client *realtime.Client
	pool   *http.Transport // connections of client
	calls  []*call
	// sessions has the upstream's end of the call that is being made.
	sessions chan *simulator.Session
	// alive ends, with its cause, when the bridge or a call does.
	alive context.Context
	end   context.CancelCauseFunc

	upstream *http.Server
	stop     context.CancelFunc // of the upstream
	all      sync.WaitGroup
}

// openRig makes a rig for that many calls. close must be called.
func openRig(ctx context.Context, command Command, calls int) (*rig, error) {
	quiet := slog.New(slog.DiscardHandler)
	api, err := rtc.New(rtc.Config{Loopback: true, Logger: quiet})
	if err != nil {
		return nil, err
	}
	r := &rig{api: api, pool: &http.Transport{}, sessions: make(chan *simulator.Session, 1)}
	r.alive, r.end = context.WithCancelCause(ctx)
	base, err := r.startUpstream(quiet)
	if err == nil {
		r.bridge, err = startBridge(ctx, command, base, calls)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	go func() {
		<-r.bridge.exited
		r.end(r.bridge.died())
	}()
	r.client = &realtime.Client{BaseURL: r.bridge.url + "/v1", HTTP: &http.Client{Transport: r.pool}, Timeout: connectTimeout}
	return r, nil
}

// startUpstream serves a simulator on a port of loopback until close, and returns its base URL. It sends audio back as it comes.
func (r *rig) startUpstream(log *slog.Logger) (string, error) {
	ln, err := new(net.ListenConfig).Listen(r.alive, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the upstream: %w", err)
	}
	sim, err := simulator.New(simulator.Config{
		API: r.api, Models: []string{offeredModel}, MaxSessions: 2 * maxCalls, Deaf: true, Logger: log,
		Drive: func(s *simulator.Session) rtc.AudioSink {
			select {
			case r.sessions <- s:
			default: // more than one of a call
			}
			return s
		},
	})
	if err != nil {
		return "", errors.Join(err, ln.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(r.alive))
	r.stop = stop
	r.upstream = &http.Server{Handler: sim, ReadHeaderTimeout: closeTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	r.all.Go(func() { _ = sim.Run(running) })     // it returns nil: the peers' API is ours
	r.all.Go(func() { _ = r.upstream.Serve(ln) }) // it ends by close, with an error that says so
	return "http://" + ln.Addr().String() + "/v1", nil
}

// dial makes n calls, one after the other, and returns when all are ready.
func (r *rig) dial(l *load, n int) error {
	for range n {
		r.calls = append(r.calls, &call{})
	}
	for i := range n {
		if err := r.dialOne(l, r.calls[i], func(err error) { r.lose(i, err) }); err != nil {
			return fmt.Errorf("set up call %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// lose ends the measurement, because a call has ended.
func (r *rig) lose(i int, err error) {
	r.end(fmt.Errorf("call %d of %d was lost: %w", i+1, len(r.calls), err))
}

// explain adds to an error how the bridge has ended, or what it said.
func (r *rig) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errBridgeEnded) {
		return err
	}
	select {
	case <-r.bridge.exited:
		return fmt.Errorf("%w: %w", r.bridge.died(), err)
	case <-time.After(exitWait):
		return fmt.Errorf("%w%s", err, r.bridge.said())
	}
}

// close hangs up, ends everything and joins it. What ends calls from now on is no failure.
func (r *rig) close() error {
	r.end(nil)
	var errs []error
	for _, c := range r.calls {
		errs = append(errs, c.hangUp(r.client))
	}
	if r.bridge != nil {
		errs = append(errs, r.bridge.close())
	}
	// A connection that was dialled but never used would hold up the server.
	r.pool.CloseIdleConnections()
	if r.upstream != nil {
		r.stop()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := r.upstream.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the upstream: %w", err), r.upstream.Close())
		}
		r.all.Wait()
	}
	return errors.Join(append(errs, r.api.Close())...)
}
