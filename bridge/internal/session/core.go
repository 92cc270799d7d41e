package session

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// phase is a stage of a call's life.
type phase int

const (
	starting phase = iota // the first upstream session is not ready
	live                  // the caller is heard
	draining              // waiting for late transcripts
	ended
)

// core is what all parts of a call share: its configuration, the time, and the effects of the
// current input.
type core struct {
	Config
	now   time.Time
	phase phase
	away  bool // the call is waiting for its browser
	// clients are the browser, also while it is away, and the sidebands in the order in which they joined.
	clients []*told
	mustEnd EndReason // why a part wants the call to end; Reduce does it
	// isLeaving means that the model has called a tool that ends the call. Unless that fails it is asked nothing more.
	isLeaving bool
	record    records.Call
	effects   []Effect
	counter   int
	ids       int // of messages and records
}

// newID returns a new id for a message or a record.
func (c *core) newID() string {
	c.ids++
	return c.NewID(c.now, c.ids)
}

func (c *core) do(e Effect) { c.effects = append(c.effects, e) }

// joined reports whether somebody is there: 0 is the browser, which may be away.
func (c *core) joined(side int) bool {
	return slices.ContainsFunc(c.clients, func(t *told) bool { return t.side == side })
}

// told returns what a client knows; nothing is kept of one that is gone.
func (c *core) told(side int) *told {
	for _, t := range c.clients {
		if t.side == side {
			return t
		}
	}
	return new(told)
}

// typedIs takes that the upstream has a client's text, or will not get it.
func (c *core) typedIs(itemID string) {
	for _, t := range c.clients {
		if t.typed == itemID {
			t.typed = ""
		}
	}
}

// asksAnew takes that the caller asks something: no client is expected to ask for the answer to a tool call.
func (c *core) asksAnew() {
	for _, t := range c.clients {
		t.mayAsk = false
	}
}

// sendTo sends an event to the browser (0) or a sideband.
func (c *core) sendTo(side int, data []byte, draft bool) {
	switch {
	case data == nil || !c.joined(side):
	case side == 0:
		c.do(ToBrowser{Data: data, Draft: draft})
	default:
		c.do(ToSideband{ID: side, Data: data, Draft: draft})
	}
}

// broadcast sends an event to the browser and the sidebands.
func (c *core) broadcast(data []byte, draft bool) {
	for _, t := range c.clients {
		if t.welcomed {
			c.sendTo(t.side, data, draft)
		}
	}
}

func (c *core) save(change persistence.Change) { c.do(Write{Change: change}) }

// saveCall saves the current record of the call.
func (c *core) saveCall() { c.save(persistence.PutCall{Call: c.record}) }

// countTurn counts a turn of the user. It is saved at once: who ends the call of a dead process knows no other number.
func (c *core) countTurn() {
	c.record.Turns++
	c.saveCall()
}

// believed returns a usage as far as it can have been since a time; less means that the upstream has told more.
func (c *core) believed(told realtime.Usage, since time.Time) (u realtime.Usage, less bool) {
	if u, less = told.Within(c.now.Sub(since)); less {
		c.log(slog.LevelWarn, "usage that cannot be is counted as far as it can", "usage", clip(string(told.Raw)))
	}
	return u, less
}

// notify sends one of the bridge's own events to the browser and the sidebands.
func (c *core) notify(event any) { c.broadcast(encode(event), false) }

// sendError passes on an upstream's error as the answer to each of the clients' events with these ids, see [asker]; if
// there are none, it answers no event, and the browser gets it.
func (c *core) sendError(e realtime.Error, clientIDs ...string) {
	if len(clientIDs) == 0 {
		clientIDs = []string{""}
	}
	for _, id := range clientIDs {
		side, eventID := asked(id)
		e.EventID = eventID
		c.sendTo(side, realtime.ErrorEvent(c.ownEventID(), e), false)
	}
}

// refuse answers an event of a client with an error event. clientID is the client's event_id, see [asker]; code and
// message say what is wrong.
func (c *core) refuse(clientID, code, message, param string) {
	c.sendError(realtime.Error{Code: code, Message: message, Param: param}, clientID)
}

func (c *core) log(level slog.Level, message string, attrs ...any) {
	c.do(Log{Level: level, Message: message, Attrs: attrs})
}

// due reports whether a deadline has passed.
func (c *core) due(at time.Time) bool { return !at.IsZero() && !c.now.Before(at) }

// nextItemID returns a new id for an item that the bridge creates, of at most 32 characters.
func (c *core) nextItemID() string {
	c.counter++
	return fmt.Sprintf("%s_%d", c.ItemPrefix, c.counter)
}

// ownPrefix begins the ids of the bridge's own events.
const ownPrefix = "vb_"

// ownEventID returns a new id for one of the bridge's own events to the browser.
func (c *core) ownEventID() string {
	c.counter++
	return fmt.Sprintf("event_%s%d", ownPrefix, c.counter)
}

// encode encodes one of the bridge's events. Raw JSON of a tool or of the upstream in it was validated before.
func encode(v any) []byte { return toolkit.Encode(v) }

// until returns the earlier of two deadlines; zero means none.
func until(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// codeNotAllowed is the code for what a browser may not do.
const codeNotAllowed = "event_not_allowed"

// clip shortens a client's value for use in a message.
func clip(v string) string {
	if len(v) > 64 {
		return toolkit.Head(v, 64) + "…"
	}
	return v
}

// audience is who sees an event of the upstream.
type audience int

const (
	nobody    audience = iota
	everybody          // the browser and the sidebands, each as far as it may
	sidebands          // not the browser
)

func seen(yes bool) audience {
	if yes {
		return everybody
	}
	return nobody
}

// mark begins the event_id of a sideband's event here: no id that was read from JSON has a byte that is not UTF-8.
const mark = "\xff"

// asker returns the event_id of an event together with which sideband sent it, 0 for the browser: an answer finds its
// way.
func asker(side int, eventID string) string {
	if side == 0 {
		return eventID
	}
	return mark + strconv.Itoa(side) + mark + eventID
}

// asked returns what [asker] was given.
func asked(id string) (side int, eventID string) {
	rest, ok := strings.CutPrefix(id, mark)
	if !ok {
		return 0, id
	}
	number, eventID, _ := strings.Cut(rest, mark)
	side, _ = strconv.Atoi(number) // it was written here
	return side, eventID
}
