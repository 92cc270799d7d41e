package simulator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
)

// Config configures a Server. The zero value is the friendly demo.
type Config struct {
	// API makes the peers. If it is nil, the server makes its own on any port, loopback included, and Run closes it.
	API *rtc.API
	// Answer makes the connection for a client's offer, and the answer, in place of API: in tests, without a network.
	Answer func(ctx context.Context, offer string, h media.Handlers) (Connection, string, error)
	// APIKey is the required bearer key; empty accepts all clients.
	APIKey string
	// Models are accepted in addition to every name that begins with gpt-realtime.
	Models []string
	// Script decides the answers; nil means DefaultScript.
	Script *Script
	Pace   Pace
	// Faults apply to every call or, if FaultyCalls is not 0, to the first FaultyCalls. If FaultsFor is set, it is
	// asked instead, with the number of the creation, from 1.
	Faults      Faults
	FaultyCalls int
	FaultsFor   func(call int) Faults
	// MaxDuration ends a session with session_expired, as announced in its expires_at; zero means 60 min.
	MaxDuration time.Duration
	// Continuous sends silence while nothing is said, so that there is a packet every 20 ms.
	// Otherwise a silent session sends nothing.
	Continuous bool
	// MaxSessions limits open sessions; zero means 1000. More get HTTP status 429.
	MaxSessions int
	// Deaf counts the caller's audio without decoding it, so that a load test measures its clients and not this
	// package.
	Deaf bool
	// Drive, if set, is called for each session before it runs. The sink that it returns takes the caller's audio in
	// place of the simulator's speech detection.
	Drive func(*Session) media.Sink
	// Logger takes the log; nil discards it.
	Logger *slog.Logger
}

// Pace is how fast a session thinks. Zero fields mean the defaults, which the comments name.
type Pace struct {
	Think      time.Duration // from the turn's end to the first output; 150 ms
	Step       time.Duration // between two deltas of about three words; 30 ms
	Transcript time.Duration // from the turn's end to its transcript; 250 ms
}

func (c *Config) defaults() {
	c.Pace.Think = cmp.Or(c.Pace.Think, 150*time.Millisecond)
	c.Pace.Step = cmp.Or(c.Pace.Step, 30*time.Millisecond)
	c.Pace.Transcript = cmp.Or(c.Pace.Transcript, 250*time.Millisecond)
	c.MaxDuration = cmp.Or(c.MaxDuration, 60*time.Minute)
	c.MaxSessions = cmp.Or(c.MaxSessions, 1000)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Script = cmp.Or(c.Script, DefaultScript())
}

func (c *Config) validate() error {
	if c.FaultyCalls < 0 || c.MaxDuration < 0 {
		return errors.New("FaultyCalls or MaxDuration is negative")
	}
	return c.Faults.validate()
}

func (c *Config) knowsModel(name string) bool {
	return strings.HasPrefix(name, "gpt-realtime") || slices.Contains(c.Models, name)
}
