package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime/rtc"
)

// Config says how a Server behaves. The zero value is the friendly demo.
type Config struct {
	// API makes the peers. Nil makes one on any port, loopback included, which
	// Run closes.
	API *rtc.API
	// APIKey is the bearer key that is asked for; empty accepts every caller.
	APIKey string
	// Models are accepted beside every name that begins with gpt-realtime.
	Models []string
	// Script decides the answers; nil means DefaultScript.
	Script *Script
	Pace   Pace
	// Faults apply to every call; FaultsFor, when set, is asked instead with the
	// number of the creation, from 1.
	Faults    Faults
	FaultsFor func(call int) Faults
	// MaxDuration ends a session with session_expired; zero means 60 min.
	MaxDuration time.Duration
	// MaxSessions is how many sessions may be open; zero means 1000. More get
	// HTTP status 429.
	MaxSessions int
	// Deaf counts the caller's audio without decoding it, so that a load test
	// measures others and not this package.
	Deaf bool
	// Logger may be nil.
	Logger *slog.Logger
}

// Pace is how fast a session thinks. Zero fields take the defaults.
type Pace struct {
	Think      time.Duration // from the turn's end to the first output; 150 ms
	Step       time.Duration // between two deltas of about three words; 30 ms
	Transcript time.Duration // from the turn's end to its transcript; 250 ms
}

// TranscriptFault is what goes wrong with the transcripts of spoken turns.
type TranscriptFault string

// The faults of transcripts.
const (
	TranscriptLate     TranscriptFault = "late"     // after the answer has been generated
	TranscriptNever    TranscriptFault = "never"    // no event at all
	TranscriptFailed   TranscriptFault = "failed"   // the event that says so
	TranscriptReversed TranscriptFault = "reversed" // two turns' transcripts together, the later first
)

// Faults is what goes wrong on purpose in one call.
type Faults struct {
	// RefuseStatus answers the creation with this HTTP status, RefuseBody (an
	// OpenAI-shaped error if empty) and RefuseHeader.
	RefuseStatus int
	RefuseBody   string
	RefuseHeader http.Header
	// HangCreation never answers the creation.
	HangCreation bool
	// BadAnswer answers the creation with half an SDP.
	BadAnswer bool
	// NoLocation leaves out the header that names the call.
	NoLocation bool

	Transcripts TranscriptFault
	// ExpireAfter ends the session with session_expired, DropAfter without a
	// word, both counted from the opening of the data channel; zero is never.
	ExpireAfter time.Duration
	DropAfter   time.Duration

	InjectUnknown     bool // an event of an unknown type before each response
	InjectMalformed   bool // events that are not JSON, have no type, or fields of the wrong type
	DuplicateEvents   bool // item and transcript events come twice
	ItemsOutOfOrder   bool // the assistant's item is announced before the user's
	ConversationEvent bool // conversation.created follows session.created
	BadArguments      bool // function arguments are cut in the middle
	MuteUpdates       bool // session.update is never answered

	FailResponses       int    // so many first responses fail
	FailCode            string // with this code; rate_limit_exceeded if empty
	RejectSessionUpdate int    // so many first session.updates are refused
	RejectItems         int    // so many first conversation.item.creates are refused
}

func (c *Config) defaults() {
	c.Pace.Think = cmp.Or(c.Pace.Think, 150*time.Millisecond)
	c.Pace.Step = cmp.Or(c.Pace.Step, 30*time.Millisecond)
	c.Pace.Transcript = cmp.Or(c.Pace.Transcript, 250*time.Millisecond)
	c.MaxDuration = cmp.Or(c.MaxDuration, 60*time.Minute)
	c.MaxSessions = cmp.Or(c.MaxSessions, 1000)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Script == nil {
		c.Script = DefaultScript()
	}
}

func (c *Config) validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{
		"Pace.Think": c.Pace.Think, "Pace.Step": c.Pace.Step, "Pace.Transcript": c.Pace.Transcript,
		"MaxDuration": c.MaxDuration,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %v", name, d))
		}
	}
	if c.MaxSessions < 0 {
		errs = append(errs, fmt.Errorf("MaxSessions is negative: %d", c.MaxSessions))
	}
	if c.Script != nil {
		errs = append(errs, c.Script.validate())
	}
	return errors.Join(errs...)
}

func (c *Config) knowsModel(name string) bool {
	if strings.HasPrefix(name, "gpt-realtime") {
		return true
	}
	return slices.Contains(c.Models, name)
}
