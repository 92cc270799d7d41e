package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/writer"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
)

// maxReplay is the most messages that a new call is told.
const maxReplay = 200

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
	Writer writer.Committer
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
	// ImageQuota is how many bytes the images of one owner may have; 0 is no limit.
	ImageQuota int64
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
	// OnTool is told of tool calls that have ended; it may be nil and must return at once.
	OnTool func(toolkit.Report)
	Logger *slog.Logger
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

// withDefaults fills in what may be missing.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Cost == nil {
		c.Cost = func(realtime.Usage) *float64 { return nil }
	}
	if c.OnTurn == nil {
		c.OnTurn = func(persistence.Key) {}
	}
	if c.OnEnd == nil {
		c.OnEnd = func(persistence.Key, EndReason) {}
	}
	if c.OnCount == nil {
		c.OnCount = func(Counter) {}
	}
	if c.OnDraftsDropped == nil {
		c.OnDraftsDropped = func(int) {}
	}
	return c
}
