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

	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// upstream is a simulator whose calls receive and send the benchmark's packets.
type upstream struct {
	m *measurement
	// trickle, if set, is how often each call sends a packet by itself.
	trickle time.Duration

	url string // base URL, to which /realtime/calls is added
	sim *simulator.Server
	srv *http.Server
	end context.CancelFunc
	all sync.WaitGroup

	mu    sync.Mutex
	calls []*upstreamCall
	made  uint32
}

// startUpstream serves on a port of loopback until close.
func startUpstream(ctx context.Context, api *rtc.API, m *measurement, trickle time.Duration, log *slog.Logger) (*upstream, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the upstream: %w", err)
	}
	u := &upstream{m: m, trickle: trickle, url: "http://" + ln.Addr().String() + "/v1"}
	u.sim, err = simulator.New(simulator.Config{
		API: api, Models: []string{offeredModel}, MaxSessions: 2 * maxCalls, Deaf: true, Drive: u.drive, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	u.end = end
	u.srv = &http.Server{Handler: u.sim, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	u.all.Go(func() { _ = u.sim.Run(running) }) // it returns nil: the peers' API is ours
	u.all.Go(func() { _ = u.srv.Serve(ln) })    // it ends by close, with an error that says so
	return u, nil
}

// close ends all calls and joins everything.
func (u *upstream) close() error {
	u.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := u.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop the upstream: %w", err), u.srv.Close())
	}
	u.all.Wait()
	return err
}

// drive takes over a call.
func (u *upstream) drive(s *simulator.Session) (rtc.AudioSink, simulator.Model) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.made++
	c := &upstreamCall{session: s, receiver: receiver{m: u.m, way: upward}}
	c.receiver.started.init()
	c.sender = newSender(u.m, downward, u.made, s)
	u.calls = append(u.liveLocked(), c)
	if u.trickle > 0 {
		u.all.Go(func() { c.trickle(u.trickle) })
	}
	return &c.receiver, c
}

// live returns the calls that have not ended.
func (u *upstream) live() []*upstreamCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.liveLocked()
}

func (u *upstream) liveLocked() []*upstreamCall {
	var out []*upstreamCall
	for _, c := range u.calls {
		if c.session.Err() == nil {
			out = append(out, c)
		}
	}
	return out
}

// upstreamCall is one call at the upstream's end, and its model.
type upstreamCall struct {
	session  *simulator.Session
	sender   *sender
	receiver receiver

	batches *batches // of the session's goroutine; nil: the model uses no tools
}

// Output implements simulator.Model.
func (c *upstreamCall) Output(callID, output string) {
	if c.batches != nil {
		c.batches.output(callID, output)
	}
}

// Respond implements simulator.Model.
func (c *upstreamCall) Respond() bool {
	if c.batches == nil {
		return false
	}
	c.batches.create()
	return true
}

// order has the session's goroutine call f, and waits until it has, or until ctx or the session
// ends.
func (c *upstreamCall) order(ctx context.Context, f func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan struct{})
	c.session.Do(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return nil
	case <-c.session.Done():
		return fmt.Errorf("the upstream's call ended: %w", c.session.Err())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// trickle sends packets until the call ends. Nothing is sent before it is connected.
func (c *upstreamCall) trickle(every time.Duration) {
	tick := time.Tick(every)
	for {
		select {
		case <-tick:
			c.sender.send()
		case <-c.session.Done():
			return
		}
	}
}
