package session

import (
	"fmt"
	"strings"
	"time"

	"voicebridge/realtime"
)

// stage is how far an upstream session is.
type stage int

const (
	dialing     stage = iota // nothing has come from it yet
	configuring              // history and settings were sent
	ready                    // it has taken them
)

// upstream is one session of the upstream. A call has one that is heard, and at times
// a second one that is to take its place.
type upstream struct {
	*core
	gen   int
	stage stage
	limit int       // bytes of the largest event that it takes
	by    time.Time // when its set-up is given up
	gone  bool      // nothing more is sent to it
	id    string    // the upstream's id of the call
	names names
	sent  map[string]sentEvent
	order []string // of sent
	// expires is when the upstream ends the session; zero when it does not say.
	expires time.Time
	// forgot says that nothing of the history is to stay in the conversation.
	forgot bool
	// updated is the newest session.updated.
	updated realtime.Event
	// updateID is the id of the session.update of a session that is made ready.
	updateID string
	settings int // the revision of the settings that it was configured with
}

// line is the core with the upstream session that is heard.
type line struct {
	*core
	up *upstream
}

// listening says that the caller has an upstream session now.
func (l *line) listening() bool { return l.phase == live && !l.up.gone }

func (c *core) newUpstream(gen int) *upstream {
	return &upstream{
		core: c, gen: gen, limit: c.UpstreamLimit, by: c.now.Add(SetupTimeout), sent: make(map[string]sentEvent),
		names: names{gen: gen},
	}
}

// SeedPrefix begins the ids of the items that tell a session of that generation what
// was said before it.
func (c Config) SeedPrefix(gen int) string {
	if gen == 1 {
		return c.ItemPrefix + "_h"
	}
	return fmt.Sprintf("%s_%dh", c.ItemPrefix, gen)
}

// isSeed reports whether an item is one of those.
func (u *upstream) isSeed(itemID string) bool {
	return strings.HasPrefix(itemID, u.SeedPrefix(u.gen))
}

// sentEvent remembers what the bridge sent upstream, so that an error can be
// told to whoever caused it.
type sentEvent struct {
	kind sentKind
	// clientID is the event_id of the browser's event that caused this one.
	clientID string
	// forClient says that the browser asked for it.
	forClient bool
	// itemID is the item that the event creates; images says that it shows some.
	itemID string
	images bool
}

type sentKind int

const (
	sentOther sentKind = iota
	sentSession
	sentCreate
	sentText
	sentOutput
)

// clientOf is the browser's event that an event was sent for.
func (e sentEvent) clientOf() string {
	if e.forClient {
		return e.clientID
	}
	return ""
}

// eventID makes the id of an event for the upstream and remembers what it is.
func (u *upstream) eventID(what sentEvent) string {
	u.counter++
	id := fmt.Sprintf("%s%d", ownPrefix, u.counter)
	u.sent[id] = what
	u.order = append(u.order, id)
	if len(u.order) > maxSent {
		delete(u.sent, u.order[0])
		u.order = u.order[1:]
	}
	return id
}

// send sends an event, unless the session is over.
func (u *upstream) send(data []byte) {
	if !u.gone {
		u.do(ToUpstream{Gen: u.gen, Data: data})
	}
}

// cancel ends a response; an empty id means the one that is made.
func (u *upstream) cancel(responseID string) {
	u.send(realtime.ResponseCancel(u.eventID(sentEvent{}), u.names.theirs(responseID)))
}

// clearAudio ends what is still played.
func (u *upstream) clearAudio() {
	u.send(realtime.OutputAudioBufferClear(u.eventID(sentEvent{})))
}

const codeSessionExpired = "session_expired"

// ReplayPrefix begins the ids of the events that tell an upstream what was said
// before.
const ReplayPrefix = ownPrefix + "replay_"
