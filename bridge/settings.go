package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// settings is the configuration of the upstream's session. At most one
// session.update is in flight, because its answer does not name it.
type settings struct {
	// declared are the client's tools.
	declared []toolkit.Definition
	// next is what waits for its turn; asked says that there is something, if
	// only an answer to give.
	next  wish
	asked bool

	inFlight *update
	// last is the newest session.updated as the client may see it.
	last []byte
	// noReply says that the upstream does not answer spoken turns by itself.
	noReply bool
}

// update is a session.update that the upstream has not answered.
type update struct {
	eventID string
	wish    wish // the client's part
	asked   bool // the client waits for the answer
	first   bool // the bridge's own settings are in it
	noVoice bool
	before  []toolkit.Definition // the client's tools until now
	by      time.Time            // when it is given up; zero for the first, without which there is no call
}

func (c *settings) deadline() time.Time {
	if c.inFlight == nil {
		return time.Time{}
	}
	return c.inFlight.by
}

// onTime gives up an update without an answer: others wait for their turn. Whether
// the upstream has taken it is not known, so the client's tools stay.
func (c *settings) onTime(s *state) {
	u := c.inFlight
	if u == nil || !s.due(u.by) {
		return
	}
	c.inFlight = nil
	if s.phase != live {
		return
	}
	s.note(slog.LevelWarn, "session.update was not answered", "event_id", u.eventID)
	if u.asked {
		s.tellUpdateError(u, &realtime.Error{Type: "server_error", Code: "session_update_timeout", Message: "The upstream does not answer."})
	}
	s.sendNext()
}

// wishFor takes a client's session.update.
func (s *state) wishFor(clientID string, raw json.RawMessage) {
	w, err := readWish(raw, s.session.AllowClientInstructions)
	if err != nil {
		s.refuse(clientID, "invalid_value", err.Error(), "session")
		return
	}
	w.eventIDs = []string{clientID}
	if s.spoken.started {
		w.voice = nil // locked: it would lose the whole update
	}
	w.tools = s.acceptable(clientID, w.tools)
	c := &s.settings
	c.next.add(w)
	c.asked = true
	if s.phase >= configuring && c.inFlight == nil {
		s.sendNext()
	}
}

// acceptable leaves out the tools that the client cannot have and tells it which.
func (s *state) acceptable(clientID string, defs []toolkit.Definition) []toolkit.Definition {
	var good []toolkit.Definition
	for i, d := range defs {
		param := fmt.Sprintf("session.tools[%d]", i)
		if e, ok := s.registry.Lookup(d.Name); ok && e.Executor != toolkit.ExecutorClient && !s.client.MayReplace(d.Name) {
			s.refuse(clientID, "tool_name_taken", fmt.Sprintf(
				"The client tool %q is left out: a tool of the server (%s) has this name.", d.Name, e.Executor), param)
			continue
		}
		if slices.ContainsFunc(good, func(o toolkit.Definition) bool { return o.Name == d.Name }) {
			s.refuse(clientID, "tool_name_taken", fmt.Sprintf("The client tool %q is declared twice.", d.Name), param)
			continue
		}
		if err := errors.Join(toolkit.CheckName(d.Name), toolkit.CheckParameters(d.Parameters)); err != nil {
			s.refuse(clientID, "invalid_value", fmt.Sprintf("The client tool %q is left out: %v", d.Name, err), param)
			continue
		}
		good = append(good, d)
	}
	return good
}

// sendNext sends what waits, or answers the client at once when nothing of what it
// asks for is taken.
func (s *state) sendNext() {
	c := &s.settings
	w, asked := c.next, c.asked
	c.next, c.asked = wish{}, false
	switch {
	case !w.empty():
		s.sendUpdate(&update{wish: w, asked: asked})
	case asked && c.last != nil:
		s.do(toBrowser{data: c.last})
	case asked:
		s.sendUpdate(&update{asked: true})
	}
}

// replaceTools exchanges the server's tools for others and tells the upstream. Tools
// that run go on.
func (s *state) replaceTools(entries []toolkit.Entry) {
	var old []string
	for _, e := range s.registry.Entries() {
		if name := e.Tool.Definition().Name; e.Executor != toolkit.ExecutorClient && name != cancelToolName {
			old = append(old, name)
		}
	}
	if err := s.client.ReplaceServer(old, entries); err != nil {
		s.note(slog.LevelWarn, "new tools refused", "error", err)
		return
	}
	if s.phase < configuring {
		return // they go with the first session.update
	}
	c := &s.settings
	if !c.next.hasTools {
		c.next.tools, c.next.hasTools = c.declared, true
	}
	if c.inFlight == nil {
		s.sendNext()
	}
}

// configure sends the bridge's settings with what the client has asked for until
// now.
func (s *state) configure() {
	c := &s.settings
	w, asked := s.wish, c.asked
	w.tools = s.acceptable("", w.tools)
	w.add(c.next)
	c.next, c.asked = wish{}, false
	s.sendUpdate(&update{wish: w, asked: asked, first: true})
}

func (s *state) sendUpdate(u *update) {
	c := &s.settings
	if u.wish.hasTools {
		u.before = c.declared
		s.declare(u)
	}
	u.eventID = s.nextEventID(sentEvent{kind: sentSession, clientID: firstOf(u.wish.eventIDs), forClient: u.asked})
	event := realtime.SessionUpdate(u.eventID, s.sessionOf(u))
	if len(event) > s.upstreamLimit {
		// What the client asks for is left out. Without the server's tools and
		// instructions the model would be another one.
		s.note(slog.LevelWarn, "session too large for the upstream", "bytes", len(event), "limit", s.upstreamLimit)
		c.inFlight = u
		s.updateRefused(&realtime.Error{
			Type: "invalid_request_error", Code: "session_too_large", Param: "session",
			Message: fmt.Sprintf("The session has %d bytes; the upstream takes %d.", len(event), s.upstreamLimit),
		})
		return
	}
	if !u.first {
		u.by = s.now.Add(updateTimeout)
	}
	c.inFlight = u
	s.do(toUpstream{event})
}

// declare makes the tools of an update the client's.
func (s *state) declare(u *update) {
	if err := s.client.Declare(u.wish.tools); err != nil {
		s.refuse(firstOf(u.wish.eventIDs), "invalid_value", err.Error(), "session.tools")
		u.wish.tools, u.wish.hasTools = nil, false
		return
	}
	s.settings.declared = u.wish.tools
}

// updated takes the upstream's answer and returns what the browser sees of it.
func (s *state) updated(ev realtime.Event) []byte {
	visible := s.redact(ev)
	c := &s.settings
	c.last = visible
	c.noReply = !answersTurns(ev.Session)
	u := c.inFlight
	if u == nil {
		return visible
	}
	c.inFlight = nil
	asked := u.asked
	// An update of which nothing is taken has its answer here, too.
	if c.asked && c.next.empty() {
		asked, c.asked, c.next = true, false, wish{}
	}
	if s.phase == configuring {
		s.ready()
	}
	s.sendNext()
	if !asked {
		return nil
	}
	return visible
}

// answersTurns reads from a session whether the upstream answers spoken turns by
// itself. It does unless the session says otherwise.
func answersTurns(session json.RawMessage) bool {
	var o struct {
		Audio struct {
			Input struct {
				Turns json.RawMessage `json:"turn_detection"`
			} `json:"input"`
		} `json:"audio"`
	}
	if json.Unmarshal(session, &o) != nil || o.Audio.Input.Turns == nil {
		return true
	}
	raw := notNull(o.Audio.Input.Turns)
	if raw == nil {
		return false // no turns at all
	}
	var t struct {
		CreateResponse *bool `json:"create_response"`
	}
	return json.Unmarshal(raw, &t) != nil || t.CreateResponse == nil || *t.CreateResponse
}

// redact takes the server's instructions and tools out of a session event.
func (s *state) redact(ev realtime.Event) []byte {
	visible, err := realtime.RedactSession(ev.Raw, func(name string) bool { return name != "" && s.client.Declared(name) })
	if err != nil {
		s.note(slog.LevelWarn, "session event held back", "error", err)
		return nil
	}
	return visible
}

// updateRefused takes the upstream's refusal of a session.update.
func (s *state) updateRefused(e *realtime.Error) {
	c := &s.settings
	u := c.inFlight
	if u == nil || (e.EventID != "" && e.EventID != u.eventID) {
		return // it was given up
	}
	c.inFlight = nil
	switch {
	case e.Code == "cannot_update_voice" && !u.noVoice:
		again := *u
		again.noVoice, again.wish.voice = true, nil
		s.sendUpdate(&again)
	case !u.wish.empty():
		if u.wish.hasTools {
			if err := s.client.Declare(u.before); err != nil {
				s.note(slog.LevelError, "client tools not restored", "error", err)
			}
			c.declared = u.before
		}
		s.tellUpdateError(u, e)
		if u.first {
			s.sendUpdate(&update{first: true, noVoice: u.noVoice})
		} else {
			s.sendNext()
		}
	case u.first:
		s.note(slog.LevelError, "session refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
		s.tellError(*e, "")
		s.end(EndSessionRejected)
	default:
		s.tellUpdateError(u, e)
		s.sendNext()
	}
}

// tellUpdateError answers each of the client's events that are in the update.
func (s *state) tellUpdateError(u *update, e *realtime.Error) {
	if len(u.wish.eventIDs) == 0 {
		s.tellError(*e, "")
	}
	for _, id := range u.wish.eventIDs {
		s.tellError(*e, id)
	}
}

func firstOf(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}
