package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// stage is how far an upstream session has come.
type stage int

const (
	dialing     stage = iota // nothing has come from it yet
	configuring              // history and settings were sent
	ready                    // it has accepted them
)

// upstream is one session of the upstream. A call has an active one, and at times a second one that
// will replace it.
type upstream struct {
	*core
	gen   int
	stage stage
	// announced means that its session.created has come.
	announced bool
	limit     int // largest event that it accepts, in bytes
	can       Capabilities
	route     Route
	made      time.Time
	by        time.Time // when to give up on its set-up
	gone      bool      // nothing more is sent to it
	began     time.Time // when it became the active one
	// wordBy is when it counts as lost because it says nothing at all, although it was sent a text or asked again for
	// an answer; zero if it was not, or has said something since.
	wordBy time.Time
	id     string // the upstream's id of the call
	names  names
	sent   map[string]sentEvent
	order  []string // of sent
	// expires is when the upstream ends the session; zero if it does not say.
	expires time.Time
	// seconds is how long it has been billed so far, if it is billed by its length.
	seconds float64
	// forgot means that nothing of the history must stay in the conversation.
	forgot bool
	// newest is the id of the item that was told of last. History does not count, the end of which is replayed.
	newest, replayed string
	// While the session is being prepared, updateID is the id of its session.update, and updated the latest
	// session.updated.
	updateID string
	updated  event
	settings int // the revision of the settings that it was configured with
}

// line is the core and the active upstream session.
type line struct {
	*core
	up *upstream
}

// listening reports whether the caller has an upstream session now.
func (l *line) listening() bool { return l.phase == live && !l.up.gone }

func (c *core) newUpstream(gen int) *upstream {
	return &upstream{
		core: c, gen: gen, limit: cmp.Or(c.UpstreamLimit, maxSession), can: c.UpstreamCan, made: c.now,
		by: c.now.Add(c.Setup), sent: make(map[string]sentEvent),
		names: names{gen: gen},
	}
}

// take takes what a dial says about the session.
func (u *upstream) take(in UpstreamDialed) {
	u.id, u.limit = in.ID, in.Limit
	u.can, u.route = in.Can, in.Route
}

// SeedPrefix returns the prefix of the ids of items that replay history to a session of that
// generation.
func (c Config) SeedPrefix(gen int) string {
	if gen == 1 {
		return c.ItemPrefix + "_h"
	}
	return fmt.Sprintf("%s_%dh", c.ItemPrefix, gen)
}

// SessionRecord returns the record of what a session costs that is billed by its length; usage is nil while that is not
// known. It is the same for the same session, whoever writes it.
func (c *Config) SessionRecord(leg records.Leg, model string, usage *realtime.Usage) records.Response {
	rec := records.Response{
		ID: persistence.OnceID(leg.CallID, fmt.Sprintf("session/%d", leg.Generation)), Kind: records.KindSession,
		CallID: leg.CallID, Upstream: leg.Upstream, UpstreamID: leg.UpstreamID, Model: model,
		Status: realtime.ResponseInProgress, CreatedAt: leg.StartedAt,
	}
	if usage != nil {
		rec.RawUsage = encode(map[string]any{"type": "duration", "seconds": usage.Seconds})
		if c.TranscriptionCost != nil {
			rec.CostUSD = c.TranscriptionCost(leg.Upstream, model, *usage)
		}
	}
	return rec
}

// sessionRecord is SessionRecord for a session of the call.
func (u *upstream) sessionRecord(usage *realtime.Usage) records.Response {
	leg := records.Leg{
		CallID: u.CallID, Generation: int64(u.gen), Upstream: cmp.Or(u.route.Name, u.record.Upstream), UpstreamID: u.id,
		StartedAt: u.made,
	}
	return u.SessionRecord(leg, cmp.Or(u.route.Model, u.Session.Model), usage)
}

// room is the size of the largest session.update that the session accepts and can answer.
func (u *upstream) room() int { return min(u.limit, maxSession) }

// isSeed reports whether an item is one of those.
func (u *upstream) isSeed(itemID string) bool {
	return strings.HasPrefix(itemID, u.SeedPrefix(u.gen))
}

// after names an item of the call for the session, in which what an earlier session had is history.
func (u *upstream) after(it *item) string {
	if it != nil && it.gen == u.gen {
		return u.names.theirs(it.id)
	}
	return cmp.Or(u.replayed, root)
}

// sentEvent remembers what the bridge sent upstream, so that an error can be passed to whoever
// caused it.
type sentEvent struct {
	kind sentKind
	// clientID is the event_id of the browser's event that caused this one.
	clientID string
	// forClient means that the browser asked for it.
	forClient bool
	// itemID is the item that the event creates; images means that it shows some.
	itemID string
	images bool
	// ofTool means that it is no turn of its own but, as an image mostly, a part of a client's answer to a tool call.
	ofTool bool
	// role is whose text it is, empty for the user's, and after the item that it comes after, as the upstream names it,
	// empty for the last one.
	role  thread.Role
	after string
}

type sentKind int

const (
	sentOther sentKind = iota
	sentSession
	sentCreate
	sentText
	sentOutput
	sentTruncate
	sentCancel
	sentDelete
)

// caused returns the event that an upstream's error is about, and whether it is known. Where the error does not name
// it, eventID, which is that of the error's own event, may; otherwise the code says of what kind it was.
func (u *upstream) caused(e *realtime.Error, eventID string) (own sentEvent, ours bool) {
	if _, is := u.sent[eventID]; is {
		e.EventID = eventID
	}
	kind := map[string]sentKind{
		"response_cancel_not_active": sentCancel, "item_truncate_invalid_item_id": sentTruncate,
		"item_delete_invalid_item_id": sentDelete,
	}[e.Code]
	for _, id := range slices.Backward(u.order) {
		if e.EventID == "" && kind != sentOther && u.sent[id].kind == kind {
			return u.sent[id], true
		}
	}
	own, ours = u.sent[e.EventID]
	return own, ours
}

// clientOf returns the event_id of the browser's event for which an event was sent, empty if there is none.
func (e sentEvent) clientOf() string {
	if e.forClient {
		return e.clientID
	}
	return ""
}

// eventID makes an id for an event to the upstream and remembers the event.
func (u *upstream) eventID(what sentEvent) string {
	u.counter++
	id := fmt.Sprintf("%s%d", ownPrefix, u.counter)
	u.sent[id] = what
	if what.kind == sentText {
		u.wordBy = until(u.wordBy, u.now.Add(u.FirstWord))
	}
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

// cancel ends a response; an empty id means the current one.
func (u *upstream) cancel(responseID string) {
	u.send(realtime.ResponseCancel(u.eventID(sentEvent{kind: sentCancel}), u.names.theirs(responseID)))
}

// truncate says how much was heard of a spoken item, unless the upstream knows it.
func (u *upstream) truncate(itemID string, heard time.Duration) {
	if u.can.Truncation && !u.can.TruncatesItself {
		u.send(realtime.ItemTruncate(u.eventID(sentEvent{kind: sentTruncate}), u.names.theirs(itemID), heard.Milliseconds()))
	}
}

// Codes of errors, which [realtime.Error] finds in those without codes, too.
const (
	codeSessionExpired = "session_expired"
	codeSessionClosed  = "session_closed" // of a session that ended because somebody wanted that
	codeActiveResponse = "conversation_already_has_active_response"
)

// ReplayPrefix begins the ids of the events that replay history to an upstream.
const ReplayPrefix = ownPrefix + "replay_"
