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

const (
	// connectTimeout bounds how long it may take to set up a call.
	connectTimeout = 30 * time.Second
	// exitWait is how long to wait for the bridge to end after one of its calls has failed.
	exitWait = time.Second
)

// rig makes calls: it has both ends, with or without a bridge between them.
type rig struct {
	api    *rtc.API
	bridge *bridge // nil: browsers connect to the upstream
	client *realtime.Client
	pool   *http.Transport // connections of client
	// ready is the type of the event after which the caller's audio reaches the upstream.
	ready string
	// alive ends, with its cause, when the bridge or a call does.
	alive context.Context
	end   context.CancelCauseFunc

	upstream *http.Server
	stop     context.CancelFunc // of the upstream
	all      sync.WaitGroup

	mu      sync.Mutex
	dialled *call // takes the upstream's next session
}

// openRig makes a rig for that many calls, with a bridge if command is set. close must be called.
func openRig(ctx context.Context, command *Command, calls int) (*rig, error) {
	quiet := slog.New(slog.DiscardHandler)
	api, err := rtc.New(rtc.Config{Loopback: true, Logger: quiet})
	if err != nil {
		return nil, err
	}
	r := &rig{api: api, pool: &http.Transport{}, ready: realtime.TypeSessionCreated}
	r.alive, r.end = context.WithCancelCause(ctx)
	base, err := r.startUpstream(quiet)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	if command != nil {
		if r.bridge, err = startBridge(ctx, *command, base, calls); err != nil {
			return nil, errors.Join(err, r.close())
		}
		base, r.ready = r.bridge.url+"/v1", command.Ready
		go func() {
			<-r.bridge.exited
			r.end(r.bridge.died())
		}()
	}
	r.client = &realtime.Client{BaseURL: base, HTTP: &http.Client{Transport: r.pool}, Timeout: connectTimeout}
	return r, nil
}

// startUpstream serves a simulator on a port of loopback until close, and returns its base URL. Each of its sessions is
// an end of the call that is being dialled.
func (r *rig) startUpstream(log *slog.Logger) (string, error) {
	ln, err := new(net.ListenConfig).Listen(r.alive, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the upstream: %w", err)
	}
	sim, err := simulator.New(simulator.Config{
		API: r.api, Models: []string{offeredModel}, MaxSessions: 2 * maxCalls, Deaf: true, Drive: r.drive, Logger: log,
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

func (r *rig) drive(s *simulator.Session) rtc.AudioSink {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.dialled
	c.speaker = &speaker{session: s, name: fmt.Sprint(c.up.id)}
	return &c.up
}

// dial makes all calls of a load, one after the other, and returns when all are ready.
func (r *rig) dial(l *load) error {
	for i, c := range l.calls {
		r.mu.Lock()
		r.dialled = c
		r.mu.Unlock()
		if err := r.dialOne(c); err != nil {
			return fmt.Errorf("set up call %d of %d: %w", i+1, len(l.calls), err)
		}
	}
	for i, c := range l.calls {
		context.AfterFunc(c.browser.alive, func() {
			r.end(fmt.Errorf("call %d of %d ended while it was measured: %w", i+1, len(l.calls), context.Cause(c.browser.alive)))
		})
	}
	return nil
}

func (r *rig) dialOne(c *call) (err error) {
	if c.browser, err = newBrowser(r.alive, r.api, r.ready, c.heard); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.alive, connectTimeout)
	defer cancel()
	if err := c.browser.connect(ctx, r.client, &c.down); err != nil {
		return err
	}
	if err := c.browser.await(ctx); err != nil {
		return err
	}
	r.mu.Lock() // what drive wrote is seen from here on
	defer r.mu.Unlock()
	if c.speaker == nil {
		return errors.New("the call is ready without a session upstream")
	}
	return nil
}

// hangUp ends all calls that were made. What ends them from now on is no failure.
func (r *rig) hangUp(l *load) error {
	r.end(nil)
	var errs []error
	for _, c := range l.calls {
		if c.browser != nil {
			errs = append(errs, c.browser.hangUp(r.client))
		}
	}
	return errors.Join(errs...)
}

// usage is what the bridge has used so far.
func (r *rig) usage() (usage, error) {
	if r.bridge == nil {
		return usage{}, errNoUsage
	}
	return readUsage(r.bridge.pid)
}

// explain adds the bridge's output to an error.
func (r *rig) explain(err error) error {
	if err == nil || r.bridge == nil || errors.Is(err, context.Canceled) || errors.Is(err, errBridgeEnded) {
		return err
	}
	select {
	case <-r.bridge.exited:
		return fmt.Errorf("%w: %w", r.bridge.died(), err)
	case <-time.After(exitWait):
		return fmt.Errorf("%w%s", err, r.bridge.stderr)
	}
}

// close ends everything and joins it.
func (r *rig) close() error {
	var errs []error
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
	errs = append(errs, r.api.Close())
	r.end(nil)
	return errors.Join(errs...)
}
