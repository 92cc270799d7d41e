package session

import (
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// phase is where a call is in its life.
type phase int

const (
	starting phase = iota // the first upstream session is not ready
	live                  // the caller is heard
	draining              // waiting for late transcripts
	ended
)

// core is what all parts of a call share: its configuration, the time, and the effects
// of the input at hand.
type core struct {
	Config
	now     time.Time
	phase   phase
	away    bool // the browser is not there
	record  persistence.CallRecord
	effects []Effect
	counter int
}

func (c *core) do(e Effect) { c.effects = append(c.effects, e) }

func (c *core) save(change Change) { c.do(Write{change}) }

// saveCall saves the call's record as it is now.
func (c *core) saveCall() { c.save(SaveCall{c.record}) }

// notify sends one of the bridge's own events to the browser.
func (c *core) notify(event any) { c.do(ToBrowser{Data: encode(event)}) }

// sendError passes an upstream's error on, as the answer to the browser's event.
func (c *core) sendError(e realtime.Error, clientID string) {
	e.EventID = clientID
	c.do(ToBrowser{Data: realtime.ErrorEvent(c.ownEventID(), e)})
}

// refuse answers an event of the browser with an error event. clientID is the
// event_id of the browser's event, code and message say what is wrong with it.
func (c *core) refuse(clientID, code, message, param string) {
	c.sendError(realtime.Error{Code: code, Message: message, Param: param}, clientID)
}

func (c *core) log(level slog.Level, message string, attrs ...any) {
	c.do(Log{Level: level, Message: message, Attrs: attrs})
}

// due reports whether a deadline has come.
func (c *core) due(at time.Time) bool { return !at.IsZero() && !c.now.Before(at) }

// nextItemID makes the id of an item, at most 32 characters long.
func (c *core) nextItemID() string {
	c.counter++
	return fmt.Sprintf("%s_%d", c.ItemPrefix, c.counter)
}

// ownPrefix begins the ids of events that the bridge sends.
const ownPrefix = "vb_"

// ownEventID makes the id of an event that the bridge sends to the browser.
func (c *core) ownEventID() string {
	c.counter++
	return fmt.Sprintf("event_%s%d", ownPrefix, c.counter)
}

// encode writes an event of the bridge. Raw JSON of a tool or of the upstream was checked
// before.
func encode(v any) []byte { return toolkit.Encode(v) }

// until returns the earlier of two deadlines, of which zero is none.
func until(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// codeNotAllowed answers what a browser may not do.
const codeNotAllowed = "event_not_allowed"

// clip makes a client's value fit into a message.
func clip(v string) string {
	if len(v) > 64 {
		return shorten(v, 64) + "…"
	}
	return v
}

// shorten cuts text to at most n bytes, between characters.
func shorten(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
