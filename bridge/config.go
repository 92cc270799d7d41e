package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/realtime"
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

// Config configures calls. Upstream, Browser, Store, Writer and Tools are required.
type Config struct {
	Upstream Upstream
	Browser  *rtc.API
	Store    *persistence.Store
	// Writer saves what is said in calls. Its Config.Saved must be Calls.Saved, and its Config.Delayed
	// Calls.StorageDelayed.
	Writer *spool.Writer
	// Tools returns the server's tools for a call on a thread.
	Tools func(ctx context.Context, owner, threadID string) (*toolkit.Registry, error)
	// Settings has the operator's budgets; the owner's spending is read from Store.
	Settings
	// ToolTimeout is the limit of a tool call; 0 means 30 s.
	ToolTimeout time.Duration
	// ImageQuota limits the bytes of all images of one owner; 0 means no limit.
	ImageQuota int64
	// TranscriptionCost returns the cost of a transcription, like Cost; nil means unknown.
	TranscriptionCost func(realtime.Usage) *float64
	// Cost returns the cost of a response in US dollars; nil, or a nil result, means unknown. It
	// must be pure.
	Cost func(realtime.Usage) *float64
	// OnTurn is called when a turn of the thread's call has ended, OnEnd when the call has ended and everything is
	// saved, OnDraftsDropped with the number of drafts that a slow browser has missed. All may be nil and must return
	// at once.
	OnTurn          func(thread.Key)
	OnEnd           func(thread.Key, EndReason)
	OnDraftsDropped func(n int)
	// OnCount counts what happens to calls; it may be nil and must return at once.
	OnCount func(Counter)
	// Trace returns the context in which a tool of the thread's call runs, with the span of the
	// turn that answers a message, which may not be saved yet; it may be nil and must return at once.
	Trace func(ctx context.Context, key thread.Key, question string) context.Context
	// OnTool is called when a tool call has ended; it may be nil and must return at once.
	OnTool func(toolkit.Report)
	Logger *slog.Logger // nil discards the log
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
	return errors.Join(errs...)
}

// withDefaults fills in missing values.
func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Cost == nil {
		c.Cost = func(realtime.Usage) *float64 { return nil }
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
	if c.OnDraftsDropped == nil {
		c.OnDraftsDropped = func(int) {}
	}
	return c
}
