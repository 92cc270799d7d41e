package bridge

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/thread"
)

const (
	// knownFor is how long an upstream counts as reachable that was reached.
	knownFor = 5 * time.Minute
	// restFor is how long an upstream is left alone that could not be dialled.
	restFor = time.Minute
	// firstShare is how much of the time for a dial an upstream has while there are others.
	firstShare = 5 * leg.DialTimeout / 8
)

// chain is an Upstream that stands for one or several: the first one that can be dialled has the session.
type chain struct {
	routes   []Route // in the order in which they are tried
	defaults SessionConfig
	health   *health
	log      *slog.Logger
}

// chain returns the upstreams from that of a call on, each once.
func (c *Config) chain(first Route, health *health) *chain {
	at := slices.IndexFunc(c.Upstreams, func(r Route) bool { return r.Name() == first.Name() })
	return &chain{slices.Concat(c.Upstreams[at:], c.Upstreams[:at]), c.Session, health, c.Logger}
}

func (c *chain) Name() string { return c.routes[0].Name() }

// HangUp is never called: each session has the upstream that Dial.Use has named.
func (c *chain) HangUp(ctx context.Context, id string) error { return c.routes[0].HangUp(ctx, id) }

func (c *chain) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	if d.Refused != "" {
		c.health.failed(d.Refused)
	}
	left := c.health.awake(c.routes)
	if len(left) > 1 && left[0].Name() == d.Refused { // none is awake
		left = slices.Concat(left[1:], left[:1])
	}
	for {
		route := left[0]
		left = left[1:]
		l, created, err := c.try(ctx, d, route, len(left) > 0)
		if err == nil {
			c.health.answered(route.Name())
		}
		if err == nil || created || ctx.Err() != nil {
			return l, err
		}
		c.health.failed(route.Name())
		if len(left) == 0 {
			return nil, err
		}
		c.log.Warn("the next upstream is tried", "failed", route.Name(), "next", left[0].Name(), "error", err)
	}
}

// known reports whether the upstream that is asked first was reached lately: its key and its model are fine.
func (c *chain) known() bool { return c.health.knows(c.health.awake(c.routes)[0].Name()) }

// try dials one upstream, within its share of the time if there are others. created means that it has made a session,
// whose record may be saved: whatever failed then, another one would need a record of its own.
func (c *chain) try(ctx context.Context, d Dial, route Route, others bool) (l UpstreamLeg, created bool, err error) {
	if others {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, firstShare, leg.ErrDialTimeout)
		defer cancel()
	}
	one := new(attempt)
	if len(c.routes) > 1 {
		d.Handlers = one.handlers(d.Handlers)
		defer func() { one.end(err == nil) }()
	}
	settled, save := route.settled(c.defaults), d.Created
	defaults := c.defaults.With(settled)
	d.Session = defaults.Creation()
	d.Created = func(id string) error {
		created = true
		return save(id)
	}
	whole, history := d.Whole, d.History
	d.Whole = func(ctx context.Context, _ session.Route) (realtime.Settings, error) { return whole(ctx, settled) }
	d.History = func(ctx context.Context) ([]thread.Message, error) {
		messages, err := history(ctx)
		created = created || err != nil // not the upstream's fault
		return messages, err
	}
	d.Use(route.Upstream, settled)
	l, err = route.Dial(ctx, d)
	return l, created, err
}

// attempt holds back what comes from a session until its dial has succeeded: what comes from one that was given up, if
// only that it is closed, must not be taken for the next one's.
type attempt struct {
	through atomic.Bool // nothing is held back any more
	mu      sync.Mutex
	over    bool // everything is dropped
	held    []func()
}

func (a *attempt) handlers(to media.Handlers) media.Handlers {
	return media.Handlers{
		Message:  held(a, to.Message),
		TooLarge: held(a, to.TooLarge),
		State:    held(a, to.State),
		Open:     to.Open,
		Reached:  to.Reached,
	}
}

func held[T any](a *attempt, to func(T)) func(T) {
	if to == nil {
		return nil
	}
	return func(v T) {
		if a.through.Load() {
			to(v)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case a.over:
		case a.through.Load():
			to(v)
		default:
			a.held = append(a.held, func() { to(v) })
		}
	}
}

// end hands on what was held back, and whatever follows, or drops it.
func (a *attempt) end(succeeded bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over = !succeeded; succeeded {
		for _, hand := range a.held {
			hand()
		}
		a.through.Store(true)
	}
	a.held = nil
}

// health knows which upstreams have failed lately, and which were reached. It is safe for concurrent use.
type health struct {
	failures, reached sync.Map // when each upstream last failed, or was reached, by its name
}

func (h *health) answered(name string) {
	h.reached.Store(name, time.Now())
	h.failures.Delete(name)
}

// doubt forgets that an upstream was reached: it has not served a call.
func (h *health) doubt(name string) { h.reached.Delete(name) }

func (h *health) knows(name string) bool { return within(&h.reached, name, knownFor) }

func (h *health) failed(name string) {
	h.failures.Store(name, time.Now())
	h.reached.Delete(name)
}

// within reports whether something has happened to an upstream no longer ago than that.
func within(times *sync.Map, name string, limit time.Duration) bool {
	at, ok := times.Load(name)
	return ok && time.Since(at.(time.Time)) < limit
}

// awake returns the routes that have not failed lately, or all of them if there are none.
func (h *health) awake(routes []Route) []Route {
	failed := func(r Route) bool { return within(&h.failures, r.Name(), restFor) }
	awake := slices.DeleteFunc(slices.Clone(routes), failed)
	if len(awake) == 0 {
		return routes
	}
	return awake
}
