package bridge

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"voicebridge/bridge/internal/leg"
)

const (
	// restFor is how long an upstream is left alone that could not be dialled.
	restFor = time.Minute
	// firstShare is how much of the time for a dial an upstream has while there are others.
	firstShare = 5 * leg.DialTimeout / 8
)

// chain is an Upstream that stands for several: the first one that can be dialled has the session.
type chain struct {
	routes   []Route // in the order in which they are tried
	defaults SessionConfig
	health   *health
	log      *slog.Logger
}

// chain returns the upstreams from that of a call on, each once.
func (c *Config) chain(first Route, health *health) Upstream {
	if len(c.Upstreams) == 1 {
		return first.Upstream
	}
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
	for {
		route := left[0]
		left = left[1:]
		l, created, err := c.try(ctx, d, route, len(left) > 0)
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

// try dials one upstream, within its share of the time if there are others. created means that it has made a session, whose
// record may be saved: whatever failed then, another one would need a record of its own.
func (c *chain) try(ctx context.Context, d Dial, route Route, others bool) (l UpstreamLeg, created bool, err error) {
	if others {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, firstShare, leg.ErrDialTimeout)
		defer cancel()
	}
	settled, save := route.settled(c.defaults), d.Created
	defaults := c.defaults.With(settled)
	d.Session = defaults.Creation()
	d.Created = func(id string) error {
		created = true
		return save(id)
	}
	d.Use(route.Upstream, settled)
	l, err = route.Dial(ctx, d)
	return l, created, err
}

// health knows which upstreams have failed lately. It is safe for concurrent use.
type health struct {
	mu   sync.Mutex
	rest map[string]time.Time // until when
}

func (h *health) failed(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rest == nil {
		h.rest = make(map[string]time.Time)
	}
	h.rest[name] = time.Now().Add(restFor)
}

// awake returns the routes that have not failed lately, or all of them if there are none.
func (h *health) awake(routes []Route) []Route {
	h.mu.Lock()
	defer h.mu.Unlock()
	awake := slices.DeleteFunc(slices.Clone(routes), func(r Route) bool { return time.Now().Before(h.rest[r.Name()]) })
	if len(awake) == 0 {
		return routes
	}
	return awake
}
