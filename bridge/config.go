package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/persistence/spool"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// What an operator sets for all calls.
type (
	// Settings are all of them.
	Settings = session.Settings
	// TurnDetection says when the caller's turn is over.
	TurnDetection = session.TurnDetection
	// SessionConfig is what a session has unless its client changes it.
	SessionConfig = session.Defaults
	// Limits are those of one call.
	Limits = session.Limits
	// Budget is what calls may cost.
	Budget = session.Budget
)

// Counter names something that is counted over all calls.
type Counter = session.Counter

// Counters are all counters.
var Counters = session.Counters

// Route is an upstream, and what its sessions have.
type Route struct {
	Upstream

	// Model, Voice and TranscriptionModel are those of Settings.Session if they are empty, unless Own is set.
	Model, Voice, TranscriptionModel string
	Own                              bool
}

// Config configures calls. Upstreams, Browser, Store, Writer and Tools are required.
type Config struct {
	// Upstreams have different names. A call that names none takes the first. If that cannot be dialled, or refuses to
	// go on, the next one takes its place.
	Upstreams []Route
	Browser   *rtc.API
	Store     *persistence.Store
	// Writer saves what is said in calls. Its Config.Saved must be Calls.Saved, and its Config.Delayed
	// Calls.StorageDelayed.
	Writer *spool.Writer
	// Tools returns the server's tools for a call on a thread.
	Tools func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error)
	// Record prepares the recording of a call, and has failed called if later nothing more can be kept; nil means that
	// calls are not recorded.
	Record func(owner, callID string, failed func()) (Recording, error)
	// Announcement is what the model says first in calls that are recorded; empty for nothing.
	Announcement string
	// Settings has the operator's budgets; the owner's spending is read from Store.
	Settings
	// ToolTimeout is the limit of a tool call; 0 means 30 s.
	ToolTimeout time.Duration
	// ImageQuota limits the bytes of all images of one owner; 0 means no limit.
	ImageQuota int64
	// TranscriptionCost returns the cost of a transcription, like Cost; nil means unknown.
	TranscriptionCost func(upstream, model string, u realtime.Usage) *float64
	// Cost returns the cost of a model's response in US dollars; nil, or a nil result, means unknown. It
	// must be pure.
	Cost func(upstream, model string, u realtime.Usage) *float64
	// OnTurn is called when a turn of the thread's call has ended, OnEnd when the call has ended and everything is
	// saved, OnDraftsDropped with the number of drafts that a slow browser has missed. All may be nil and must return
	// at once.
	OnTurn          func(thread.Key)
	OnEnd           func(thread.Key, EndReason)
	OnDraftsDropped func(n int)
	// Observe returns what follows a new call, asked for by the request of ctx; nil means nothing.
	Observe func(ctx context.Context, key thread.Key, callID string) Observer
	// OnCount counts what happens to calls; it may be nil and must return at once.
	OnCount func(Counter)
	// GiveUp has another process do what [Calls.GiveUp] does; persistence.ErrGone means that it is known to be dead.
	// It is required where several processes share a database.
	GiveUp func(ctx context.Context, call records.Call, takeover bool) error
	// OnTool is called when a tool call has ended; it may be nil and must return at once.
	OnTool func(toolkit.Report)
	Logger *slog.Logger // nil discards the log
}

// Turn is an input of the user, or what began a call, with all that was made to answer it.
type Turn = session.Turn

// Observer follows a call. Its methods must return at once, and are safe for concurrent use.
type Observer interface {
	// SetUp gets how the call was set up, with its first sound or some seconds later.
	SetUp(how SetUp)
	// TurnOver gets each turn once it is over, and charges as they come.
	TurnOver(turn Turn)
	// Ended gets why the call has ended once everything is saved, [EndNone] if it never began.
	Ended(reason EndReason)
}

// unobserved is the Observer of a call that nobody follows.
type unobserved struct{}

func (unobserved) SetUp(SetUp) {}

func (unobserved) TurnOver(Turn) {}

func (unobserved) Ended(EndReason) {}

func (c Config) validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"Upstreams", len(c.Upstreams) > 0}, {"Browser", c.Browser != nil}, {"Store", c.Store != nil},
		{"Tools", c.Tools != nil},
	} {
		if !f.ok {
			errs = append(errs, fmt.Errorf("bridge: Config.%s is missing", f.name))
		}
	}
	return errors.Join(errs...)
}

// route returns the upstream of that name, or the first one.
func (c *Config) route(name string) (Route, bool) {
	if name == "" {
		return c.Upstreams[0], true
	}
	at := slices.IndexFunc(c.Upstreams, func(r Route) bool { return r.Name() == name })
	if at < 0 {
		return Route{}, false
	}
	return c.Upstreams[at], true
}

// settled returns what sessions of the route have, where it has no settings of its own those of d.
func (r *Route) settled(d SessionConfig) session.Route {
	if r.Own {
		d = SessionConfig{}
	}
	return session.Route{
		Name: r.Name(), Model: cmp.Or(r.Model, d.Model), Voice: cmp.Or(r.Voice, d.Voice),
		TranscriptionModel: cmp.Or(r.TranscriptionModel, d.TranscriptionModel), Own: r.Own,
	}
}

// Recording takes the packets of a call that is recorded, and must not make them wait.
type Recording interface {
	// User and Assistant return Sinks that pass packets of each side on to next.
	User(next media.Sink) media.Sink
	Assistant(next media.Sink) media.Sink
	// Run begins the recording, or goes on with it, or pauses it. Stop ends it, End waits until it is written.
	Run(on bool)
	Stop()
	End()
}

// withDefaults fills in missing values.
func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Cost == nil {
		c.Cost = func(string, string, realtime.Usage) *float64 { return nil }
	}
	if c.TranscriptionCost == nil {
		c.TranscriptionCost = func(string, string, realtime.Usage) *float64 { return nil }
	}
	if c.OnTurn == nil {
		c.OnTurn = func(thread.Key) {}
	}
	if c.OnEnd == nil {
		c.OnEnd = func(thread.Key, EndReason) {}
	}
	if c.OnCount == nil {
		c.OnCount = func(Counter) {}
	}
	if c.Observe == nil {
		c.Observe = func(context.Context, thread.Key, string) Observer { return unobserved{} }
	}
	if c.OnDraftsDropped == nil {
		c.OnDraftsDropped = func(int) {}
	}
	return c
}

// Upstream is a driver for a realtime voice model: dialling, sending, events, media and closing.
type Upstream = leg.Upstream

// Dial describes a session that [Upstream] creates.
type Dial = leg.Dial

// Capabilities are what a session of an [Upstream] can.
type Capabilities = session.Capabilities

// UpstreamLeg is the connection to a created session.
type UpstreamLeg = leg.UpstreamLeg

// with returns the configuration of a call that an assistant has: what it leaves out stays.
func (c Config) with(a assistant.Assistant) *Config {
	v, s := a.Voice, &c.Session
	s.Instructions = cmp.Or(a.Instructions, s.Instructions)
	s.Language = cmp.Or(v.Language, s.Language)
	if after := a.Fillers.AfterSeconds; after != nil {
		c.FillerAfter = assistant.Seconds(*after)
	}
	if a.Fillers.Lines != nil {
		c.FillerLines = a.Fillers.Lines
	}
	s.Interruption = a.Interruption.Or(s.Interruption)
	if a.Keyterms != nil {
		s.Keyterms = a.Keyterms
	}
	if v.Speed != nil {
		s.Speed = *v.Speed
	}
	if v.TurnDetection != nil {
		s.TurnDetection = *v.TurnDetection
	}
	a.Set(&c.ReplayMessages, a.History.ReplayMessages)
	longest := narrowed(a.Fixed(), float64(c.MaxDuration), a.Limits.MaxMinutes, float64(time.Minute))
	c.MaxDuration = time.Duration(longest)
	c.Idle = time.Duration(narrowed(a.Fixed(), float64(c.Idle), a.Limits.IdleMinutes, float64(time.Minute)))
	c.CallUSD = narrowed(a.Fixed(), c.CallUSD, a.Limits.CallUSD, 1)
	c.Approve, c.Deny = c.Approve.With(a.Tools.Approve), c.Deny.With(a.Tools.Deny)
	c.Upstreams = c.routesOf(a)
	return &c
}

// ofText is an upstream in which a text model answers: it returns its route as an assistant has it.
type ofText interface {
	of(r Route, text assistant.Text) Route
}

// routesOf returns the upstreams with the assistant's model and voices: those are of the upstream that it names, or of
// the first. On others they take the place of the server's, but not of what these have themselves. What answers in a
// cascade is the assistant's model for text.
func (c *Config) routesOf(a assistant.Assistant) []Route {
	v, s := a.Voice, &c.Session
	s.Model, s.Voice = cmp.Or(v.Model, s.Model), cmp.Or(v.Voice, s.Voice)
	s.TranscriptionModel = cmp.Or(v.TranscriptionModel, s.TranscriptionModel)
	routes := slices.Clone(c.Upstreams)
	for i := range routes {
		if own, ok := routes[i].Upstream.(ofText); ok {
			routes[i] = own.of(routes[i], a.Text)
		}
	}
	at := max(0, slices.IndexFunc(routes, func(r Route) bool { return r.Name() == v.Upstream }))
	r := &routes[at]
	r.Model, r.Voice = cmp.Or(v.Model, r.Model), cmp.Or(v.Voice, r.Voice)
	r.TranscriptionModel = cmp.Or(v.TranscriptionModel, r.TranscriptionModel)
	return routes
}

// narrowed returns a limit, of which 0 means none, with an assistant's, in a unit: only the operator's may widen it.
func narrowed(mayWiden bool, limit float64, own *float64, unit float64) float64 {
	switch {
	case own == nil:
		return limit
	case mayWiden || limit == 0:
		return *own * unit
	case *own == 0:
		return limit
	}
	return min(limit, *own*unit)
}

// answering makes the peer for a browser's offer, and the answer.
type answering func(ctx context.Context, offer string, h media.Handlers) (answerer, string, error)

// answerer is a browser's peer, which takes later offers of the same connection; *rtc.Peer implements it.
type answerer interface {
	leg.Peer
	Restart(ctx context.Context, offer string) (answer string, err error)
}

func answeringBy(api *rtc.API) answering {
	return func(ctx context.Context, offer string, h media.Handlers) (answerer, string, error) {
		peer, answer, err := api.Answer(ctx, offer, h)
		if err != nil {
			return nil, "", err
		}
		return peer, answer, nil
	}
}
