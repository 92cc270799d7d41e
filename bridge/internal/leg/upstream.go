package leg

import (
	"context"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// Upstream is the realtime voice model that calls talk to. Dialling, sending,
// events, media and closing are all a driver has to offer.
type Upstream interface {
	// Name is the driver's name as it is saved with a call.
	Name() string
	// Dial creates a session. Errors: *realtime.APIError when the upstream refused.
	Dial(ctx context.Context, d Dial) (UpstreamLeg, error)
	// HangUp ends a session by its id, also one of an earlier process. A session that
	// is gone already is no error.
	HangUp(ctx context.Context, id string) error
}

// Dial describes a session to be created.
type Dial struct {
	// Session is the session object with the fields that are fixed at creation.
	Session []byte
	// History are the messages that the model is to know. A driver whose upstream takes
	// them later reads them after Created and returns them from [UpstreamLeg.Opening].
	History History
	// ItemPrefix begins the ids of the items that History and
	// [UpstreamLeg.Append] become; nothing else has such ids.
	ItemPrefix string
	// Handlers receive the leg's events; see [rtc.Handlers]. The events are those of the
	// Realtime API, which the browser's data channel speaks, too: a driver whose upstream
	// has others translates.
	Handlers rtc.Handlers
	// Created is called once with the upstream's id of the session, before any media
	// flows, so that it can be saved: what a crash leaves behind can then be hung up.
	Created func(id string) error
}

// History reads the end of a thread, oldest first. The first session of a call reads it
// after Dial.Created: only then the thread is the call's, and all that its last call has
// said is saved.
type History func(ctx context.Context) ([]persistence.Message, error)

// UpstreamLeg is the connection to a created session.
type UpstreamLeg interface {
	Peer
	// ID is the upstream's id of the session.
	ID() string
	// Opening returns the events that the session gets before all others, when it has
	// said that it is there: those that tell it the history. It is called once.
	Opening() [][]byte
	// Order says which item stands before that of an event; see [session.Order]. Only
	// the call's loop calls it, with each event once.
	Order(ev realtime.Event) (before string, known bool)
	// Append returns the events that tell the session what was said meanwhile.
	Append(messages []persistence.Message) [][]byte
}
