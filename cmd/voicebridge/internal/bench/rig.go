package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// rig makes calls: it has both ends, with or without a bridge between them.
type rig struct {
	m      *measurement
	api    *rtc.API
	up     *upstream
	bridge *bridge // nil: browsers connect to the upstream
	bare   bool    // the bridge is a bare relay
	client *realtime.Client
	pool   *http.Transport // connections of client
	// alive ends, with its cause, when the bridge does.
	alive context.Context
	end   context.CancelCauseFunc
}

// openRig makes a rig for that many calls, with a bridge if command is set. trickle, if not 0, is how
// often each of the upstream's calls sends a packet by itself. close must be called.
func openRig(ctx context.Context, command *Command, calls int, trickle time.Duration) (*rig, error) {
	quiet := slog.New(slog.DiscardHandler)
	api, err := rtc.New(rtc.Config{Loopback: true, Logger: quiet})
	if err != nil {
		return nil, err
	}
	r := &rig{m: newMeasurement(), api: api, pool: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	r.alive, r.end = context.WithCancelCause(ctx)
	if r.up, err = startUpstream(ctx, api, r.m, trickle, quiet); err != nil {
		return nil, errors.Join(err, r.close())
	}
	base := r.up.url
	if command != nil {
		if r.bridge, err = startBridge(ctx, *command, r.up.url, calls); err != nil {
			return nil, errors.Join(err, r.close())
		}
		base, r.bare = r.bridge.url+"/v1", command.Relay
		go r.watch()
	}
	r.client = &realtime.Client{BaseURL: base, HTTP: &http.Client{Transport: r.pool}, Timeout: connectTimeout}
	return r, nil
}

// watch waits for the bridge to end, and ends the rig if it did so by itself.
func (r *rig) watch() {
	<-r.bridge.exited
	r.end(r.bridge.died())
}

// exitWait is how long to wait for the bridge to end after one of its calls has failed.
const exitWait = time.Second

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
	if r.up != nil {
		errs = append(errs, r.up.close())
	}
	errs = append(errs, r.api.Close())
	r.end(nil)
	return errors.Join(errs...)
}

// readyType returns the type of the event after which the caller's audio reaches the upstream.
func (r *rig) readyType() string {
	if r.bridge != nil && !r.bare {
		return typeBridgeReady
	}
	return realtime.TypeSessionCreated
}

// dial makes one call and returns it when it is ready.
func (r *rig) dial(ctx context.Context, number int) (*browser, error) {
	b, err := dial(ctx, r.api, r.client, r.m, r.readyType(), uint32(number)) // below maxCalls
	if err != nil {
		return nil, err
	}
	if err := b.await(ctx, &b.opened, &b.ready); err != nil {
		return nil, errors.Join(err, b.hangUp(ctx))
	}
	return b, nil
}

// dialAll makes n calls, a few at once, and returns them when all are ready. On error it leaves
// none.
func (r *rig) dialAll(ctx context.Context, n int) ([]*browser, error) {
	all := make([]*browser, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range all {
		g.Go(func() (err error) {
			if gctx.Err() != nil {
				return context.Cause(gctx)
			}
			all[i], err = r.dial(gctx, i+1)
			if err != nil {
				return fmt.Errorf("set up call %d of %d: %w", i+1, n, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, hangUpAll(ctx, all))
	}
	return all, nil
}

// hangUpAll ends all calls that were made.
func hangUpAll(ctx context.Context, all []*browser) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, b := range all {
		if b != nil {
			g.Go(func() error { return b.hangUp(ctx) })
		}
	}
	return g.Wait()
}

// watchCalls returns a context that ends, with its cause, when one of the calls or the rig ends, and
// a function that ends it with another cause.
func (r *rig) watchCalls(all []*browser) (context.Context, func(cause error)) {
	ctx, end := context.WithCancelCause(r.alive)
	stops := make([]func() bool, 0, len(all))
	for i, b := range all {
		stops = append(stops, context.AfterFunc(b.alive, func() {
			end(fmt.Errorf("call %d of %d ended while it was measured: %w", i+1, len(all), context.Cause(b.alive)))
		}))
	}
	return ctx, func(cause error) {
		for _, stop := range stops {
			stop()
		}
		end(cause)
	}
}

// wait waits until a time. It returns the cause if ctx ends first.
func wait(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
