package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
)

// Defaults and limits of [Config].
const (
	maxReplay = 200
	// dialTimeout is shorter than the browser's patience with an answer that it
	// has to connect to.
	dialTimeout = 8 * time.Second
)

// SessionConfig is what the operator sets for every call.
type SessionConfig = session.Defaults

// Limits are what a call may take.
type Limits = session.Limits

// Counter names what is counted of all calls.
type Counter = session.Counter

// Config says how calls are made. Upstream, Browser, Store and Tools are needed.
type Config struct {
	Upstream Upstream
	Browser  *rtc.API
	Store    *persistence.Store
	// Writer saves what calls say; nil writes to Store, and what waits for that is lost
	// with the process.
	Writer committer
	// Tools returns the server's tools for a call on a thread.
	Tools   func(ctx context.Context, owner, threadID string) (*toolkit.Registry, error)
	Session SessionConfig
	// ReplayMessages is how many of a thread's last messages a new call is told,
	// 0 to 200.
	ReplayMessages int
	// ToolTimeout is the limit of a tool call; 0 means 30 s.
	ToolTimeout time.Duration
	// ApproveTools are the tools, or calls of them, that ask the user before each run.
	ApproveTools toolkit.Names
	// FillerAfter is when the voice says that a tool is still running; 0 is never.
	FillerAfter time.Duration
	// CloseGrace and LossGrace are how long a call waits for its browser to come back:
	// after a polite end of the connection, which a page that is loaded again makes
	// too, and after its loss. 0 ends the call at once.
	CloseGrace, LossGrace time.Duration
	// RenewBefore is how long before the upstream's time limit a call gets another
	// upstream session, at a quiet moment; 0 waits for the limit.
	RenewBefore time.Duration
	// MaxDuration ends a call; 0 leaves it to the upstream.
	MaxDuration time.Duration
	// Limits are what a call may take; what the owner has spent is read from Store.
	Limits Limits
	// TranscriptionCost is what a transcription cost, like Cost; nil is unknown.
	TranscriptionCost func(realtime.Usage) *float64
	// Cost is what a response cost, in US dollars; nil, or a nil result, is
	// unknown. It must be pure.
	Cost func(realtime.Usage) *float64
	// OnTurn is told of the thread when something was said on it and answered,
	// OnEnd when its call has ended and all of it is saved; OnDraftsDropped counts.
	// All may be nil and must return at once.
	OnTurn          func(persistence.Key)
	OnEnd           func(persistence.Key, EndReason)
	OnDraftsDropped func(n int)
	// OnCount counts what happens to calls.
	OnCount func(Counter)
	Logger  *slog.Logger
}

func (c Config) validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		ok   bool
	}{{"Upstream", c.Upstream != nil}, {"Browser", c.Browser != nil}, {"Store", c.Store != nil}, {"Tools", c.Tools != nil}} {
		if !f.ok {
			errs = append(errs, fmt.Errorf("bridge: Config.%s is missing", f.name))
		}
	}
	if c.ReplayMessages < 0 || c.ReplayMessages > maxReplay {
		errs = append(errs, fmt.Errorf("bridge: Config.ReplayMessages is %d, 0 to %d are possible", c.ReplayMessages, maxReplay))
	}
	return errors.Join(errs...)
}

// Calls are the live calls of this process. Its methods may run concurrently.
type Calls struct {
	cfg    Config
	log    *slog.Logger
	admit  chan func()   // hands work over to Run, which joins it
	ending chan struct{} // closed when no more calls are let in
	lost   atomic.Int64  // changes that were not saved

	mu   sync.Mutex
	live map[persistence.Key]*call
	byID map[string]*call
}

// NewCalls returns no calls yet. Errors name what is wrong with the Config.
func NewCalls(cfg Config) (*Calls, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Cost == nil {
		cfg.Cost = func(realtime.Usage) *float64 { return nil }
	}
	if cfg.OnTurn == nil {
		cfg.OnTurn = func(persistence.Key) {}
	}
	if cfg.OnEnd == nil {
		cfg.OnEnd = func(persistence.Key, EndReason) {}
	}
	if cfg.OnCount == nil {
		cfg.OnCount = func(Counter) {}
	}
	if cfg.OnDraftsDropped == nil {
		cfg.OnDraftsDropped = func(int) {}
	}
	return &Calls{
		cfg: cfg, log: cfg.Logger, admit: make(chan func()), ending: make(chan struct{}),
		live: make(map[persistence.Key]*call), byID: make(map[string]*call),
	}, nil
}

// Run runs the calls that Start lets in until ctx ends. Then it lets no more in,
// ends those that live with the reason shutdown, and returns when all that they
// said is saved, or with an error that says how much was not. It must be called once.
func (c *Calls) Run(ctx context.Context) error {
	var running sync.WaitGroup
	if c.cfg.Store != nil {
		running.Go(func() { c.hangUpRest(ctx, c.cfg.Store) })
	}
	for {
		select {
		case work := <-c.admit:
			running.Go(work)
			continue
		case <-ctx.Done():
		}
		break
	}
	close(c.ending)
	for _, live := range c.all() {
		live.stop(EndShutdown)
	}
	running.Wait()
	if lost := c.lost.Load(); lost > 0 {
		return fmt.Errorf("%d changes of calls were not saved", lost)
	}
	return nil
}

// runOne runs a call. While the database is away the thread is free again, and
// what is left to save comes later: kept open in the database the call would block
// the thread for good.
func (c *Calls) runOne(one *call, s *session.State) {
	reason := one.run(s)
	c.release(one)
	if one.farewell != nil {
		one.thread.Publish(context.Background(), one.key, *one.farewell)
	}
	c.lost.Add(one.settle(c.ending))
	c.cfg.OnEnd(one.key, reason)
}

// saveEnd saves the end of a call that was never set up. While the database is away Run goes on
// with it.
func (c *Calls) saveEnd(thread threadLog, log *slog.Logger, ends ...session.Change) {
	w := newWriter(thread, log, func(persistence.Message) {})
	w.pushLast(ends...)
	w.close()
	end := w.start()
	await(end.done, commitTimeout)
	select {
	case <-end.done:
		end.giveUp()
	case c.admit <- func() { c.lost.Add(end.settle(c.ending)) }:
	case <-c.ending:
		c.lost.Add(end.settle(c.ending))
	}
}

// all lists the calls that run.
func (c *Calls) all() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []*call
	for _, live := range c.byID {
		calls = append(calls, live)
	}
	return calls
}

// Count returns how many calls live. Those that Start still sets up are not among
// them.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}

// Live returns the id of the thread's call, if this process has one.
func (c *Calls) Live(owner, threadID string) (callID string, ok bool) {
	live := c.find(persistence.Key{Owner: owner, Thread: threadID})
	if live == nil {
		return "", false
	}
	return live.id, true
}

// find returns the thread's call when it runs.
func (c *Calls) find(key persistence.Key) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live[key]
	if live == nil || c.byID[live.id] == nil {
		return nil
	}
	return live
}

// Hangup ends a call, of whatever instance, and returns when all of it is saved; while the database is
// away it waits 10 s for that. A call that is not
// there, or is a stranger's, is persistence.ErrNotFound.
func (c *Calls) Hangup(ctx context.Context, owner, callID string) error {
	if c.ofOwner(owner, callID) == nil {
		if rec, ok, err := c.others().elsewhereByID(ctx, owner, callID); err != nil {
			return err
		} else if ok {
			_, err := c.others().ask(ctx, rec, commandHangup, question{})
			return err
		}
	}
	return c.endHere(ctx, owner, callID, EndHangup)
}

// endHere ends a call of this process.
func (c *Calls) endHere(ctx context.Context, owner, callID string, reason EndReason) error {
	live := c.ofOwner(owner, callID)
	if live == nil {
		return fmt.Errorf("hang up call: %w", persistence.ErrNotFound)
	}
	live.stop(reason)
	select {
	case <-live.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hang up call: %w", context.Cause(ctx))
	}
}

// EndAll ends every call that lives, and returns when they have ended or ctx has.
func (c *Calls) EndAll(ctx context.Context, reason EndReason) {
	live := c.all()
	for _, one := range live {
		one.stop(reason)
	}
	for _, one := range live {
		select {
		case <-one.done:
		case <-ctx.Done():
			return
		}
	}
}

// RefreshTools asks Config.Tools again for every live call, after the server's
// tools have changed.
func (c *Calls) RefreshTools(ctx context.Context) {
	for _, live := range c.all() {
		tools, err := c.cfg.Tools(ctx, live.key.Owner, live.key.Thread)
		if err != nil {
			live.log.Warn("tools not listed again", "error", err)
			continue
		}
		live.post(session.NewTools{Entries: tools.Entries()})
	}
}

// reserve claims the thread for a new call. It waits for a call that is
// ending, and ends one that is not if takeover is asked for.
func (c *Calls) reserve(ctx context.Context, fresh *call, takeover bool) error {
	for {
		c.mu.Lock()
		old := c.live[fresh.key]
		if old == nil {
			c.live[fresh.key] = fresh
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		switch {
		case old.ends.Load():
			// Whoever has hung up may call again at once.
		case !takeover && !old.waiting.Load():
			return errCallActive
		default:
			old.stop(EndTakenOver)
		}
		select {
		case <-old.done:
		case <-ctx.Done():
			return fmt.Errorf("take over call: %w", context.Cause(ctx))
		}
	}
}

var errShuttingDown = &Error{Code: CodeShuttingDown, Message: "The server is shutting down."}

var errCallActive = &Error{
	Code: CodeCallActive, Param: "thread_id",
	Message: "The thread has a live call. Send takeover=true to move it here.",
}

// release gives the thread up.
func (c *Calls) release(old *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, old.id)
	if c.live[old.key] == old {
		delete(c.live, old.key)
	}
	close(old.done)
}

// itemPrefix makes the beginning of the ids of a call's own items.
func itemPrefix() string { return fmt.Sprintf("vb%08x", rand.Uint32()) }

// others are the processes that may have a call which this one has not.
func (c *Calls) others() instances { return instances{c.cfg.Store} }
