package leg

import (
	"context"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/session"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/thread"
)

// Upstream is a driver for a realtime voice model: dialling, sending, events, media and closing.
type Upstream interface {
	// Name is the driver's name as saved with a call.
	Name() string
	// Dial creates a session. Errors: *realtime.APIError when the upstream refused.
	Dial(ctx context.Context, d Dial) (UpstreamLeg, error)
	// HangUp ends a session by its id, even one of an earlier process. A session that is already
	// gone is not an error.
	HangUp(ctx context.Context, id string) error
}

// Dial describes a session to be created.
type Dial struct {
	// Session is the session object with the fields that are fixed at creation.
	Session []byte
	// Refused is the name of the upstream if it has refused to go on with the call.
	Refused string
	// Use is called by a driver that stands for several upstreams, before it dials one of them.
	Use func(upstream Upstream, route session.Route)
	// Whole returns the session with all that it will be configured with, for a driver whose upstream takes it at
	// creation.
	Whole func(ctx context.Context, route session.Route) (realtime.Settings, error)
	// Interruption is what speech must have to interrupt an answer, for a driver whose sessions judge that: see
	// [Capabilities].
	Interruption assistant.Interruption
	// Owner is whose call it is. A driver tells its upstream a hash of it, if anything.
	Owner string
	// History provides the messages that the model should know. A driver reads it after Created, unless its upstream
	// takes them at creation; if they are events, it returns them from [UpstreamLeg.Opening].
	History History
	// ItemPrefix begins the ids of items made from History and by [UpstreamLeg.Append]; no other
	// items have such ids.
	ItemPrefix string
	// Handlers receive the leg's events; see [media.Handlers]. The events are those of the Realtime
	// API, as on the browser's data channel; a driver translates if its upstream has others.
	Handlers media.Handlers
	// Created is called with the upstream's id of the session, before any media flows, so that
	// it can be saved: a session left by a crash can then be hung up.
	Created func(id string) error
	// Ended takes how long a session was that is billed by its length, once that is known; reported means that the
	// upstream has said so.
	Ended func(length time.Duration, reported bool)
	// ClientPlays reports whether the client in use plays answers by its own clock, and says what was heard of them.
	ClientPlays func() bool
	// ClientSounds is the format of the client's sound, both ways, if it is known.
	ClientSounds media.Format
	// Later does work that outlives Dial: to hang up a session that nobody will use, perhaps one that the upstream
	// creates after Dial has returned. The process waits for it, but closes ending if it wants to end. It is required.
	Later func(work func(ending <-chan struct{}))
}

// History reads the end of a thread, oldest first, once the thread belongs to the call, and everything that the
// previous call said is saved.
type History func(ctx context.Context) ([]thread.Message, error)

// Timed is an Upstream whose sessions are billed by their length.
type Timed interface {
	// HangUpTimed is HangUp, and returns how long the session is billed; zero means that the upstream does not say.
	HangUpTimed(ctx context.Context, id string) (time.Duration, error)
}

// Timer is an UpstreamLeg that knows when the caller's sound came that the session speaks of, and how long the model's
// is. Sessions count what they were sent, however long it was held before.
type Timer interface {
	// Sound returns how long the sound of an item is, as far as it has come; zero if that is not known. It may be
	// called on any goroutine.
	Sound(itemID string) time.Duration
	// Said returns when sound came that has a place in all that the session has heard, and how much later, if any, it
	// was sent; ok is false if nothing that was sent has that place. It may be called on any goroutine.
	Said(place time.Duration) (at time.Time, late time.Duration, ok bool)
}

// UpstreamLeg is the connection to a created session.
type UpstreamLeg interface {
	Peer
	// ID is the upstream's id of the session.
	ID() string
	// Can says what the session can.
	Can() session.Capabilities
	// Opening returns the events to send first, once the session has announced itself: those with
	// the history. It is called once.
	Opening() [][]byte
	// Append returns the events that tell the session what was said meanwhile.
	Append(messages []thread.Message) [][]byte
}
