package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// settings is the configuration of the upstream's session. At most one session.update is in flight, because its answer
// does not name it.
type settings struct {
	*line
	client *clientTools

	// start is the session with which the call was started.
	start Patch
	// effective is what the client has asked for so far and the upstream has not refused: a new
	// session is configured with it.
	effective Patch
	// next is waiting to be sent.
	next Patch

	inFlight *update
	// revision counts the changes of effective.
	revision int
	// noReply means that the upstream does not answer utterances by itself; pushToTalk also that it does not say when
	// they end.
	noReply, pushToTalk bool
	// asks means that it would, but leaves that to the bridge, which judges first whether the caller interrupts; padding
	// is how much of what it calls speech is none.
	asks    bool
	padding time.Duration
	// instructed means that a sideband has set the instructions: the browser's count no more.
	instructed bool
}

func (c *settings) deadline() time.Time {
	if c.inFlight == nil {
		return time.Time{}
	}
	return c.inFlight.by
}

// onTime gives up an unanswered update, because others are waiting. Whether the upstream accepted
// it is unknown, so the client's tools stay.
func (c *settings) onTime() {
	u := c.inFlight
	if u == nil || !c.due(u.by) {
		return
	}
	c.inFlight = nil
	if c.phase != live {
		return
	}
	c.log(slog.LevelWarn, "session.update was not answered", "event_id", u.eventID)
	if u.asked() {
		c.sendError(realtime.Error{
			Type: "server_error", Code: "session_update_timeout", Message: "The upstream does not answer.",
		}, u.patch.eventIDs...)
	}
	c.sendNext()
}

// request takes a client's session.update. spoken means that the model has produced audio, which locks
// its voice.
func (c *settings) request(clientID string, raw json.RawMessage, spoken bool) {
	side, _ := asked(clientID)
	p, refused := readPatch(raw, c.allowed(side, spoken))
	if refused != nil { // the rest is taken
		c.refuse(clientID, refused.Code, refused.Message, refused.Param)
		if p.empty() {
			return
		}
	}
	p.eventIDs = []string{clientID}
	if p.sets(setTools) {
		p.tools = bySide{side: c.client.acceptable(clientID, p.tools[0], c.next.tools)}
	}
	if side != 0 && p.sets(setInstructions) {
		c.instructed, c.next = true, c.next.without(setInstructions)
	}
	c.next.add(p)
	c.sendNext()
}

// dropTools removes the tools of a sideband that is gone.
func (c *settings) dropTools(side int) {
	if c.next.tools[side] == nil && c.client.declared[side] == nil &&
		(c.inFlight == nil || c.inFlight.patch.tools[side] == nil) {
		return
	}
	if err := c.client.use(c.client.declared); err != nil { // without them, as it is gone
		c.log(slog.LevelError, "tools of a sideband not removed", "error", err)
	}
	c.next.add(Patch{set: realtime.Settings{setTools: nil}, tools: bySide{side: nil}})
	c.sendNext()
}

// allowed allows what the client may still change. spoken means that the model has produced audio. A sideband is of the
// application, and may change what the application may fix.
func (c *settings) allowed(side int, spoken bool) func(path string, f realtime.Field) bool {
	return func(path string, f realtime.Field) bool {
		switch {
		case spoken && f.Lock == realtime.OnceSpoken:
			return false // it would make the whole update fail
		case side != 0:
			return f.Who >= realtime.ByApp
		case c.Fixed && slices.Contains(c.MayChange, path[strings.LastIndex(path, ".")+1:]):
			return true
		case path == setInstructions && c.instructed:
			return false
		}
		return c.Session.forClients(path, f) && !(c.Fixed && c.Patch.sets(path))
	}
}

// keepFixed removes from a client's fields for a response what a fixed session names.
func (c *settings) keepFixed(response map[string]json.RawMessage) {
	for path := range c.Patch.set {
		if c.Fixed {
			delete(response, path)
		}
	}
}

// toolsOfResponse returns the tools of a response that an application's server asks for: those that it names, which
// become its own beside those of its session, and the server's.
func (c *settings) toolsOfResponse(clientID string, list json.RawMessage) json.RawMessage {
	side, _ := asked(clientID)
	_, wanted, _ := readTools(list)
	own := c.client.acceptable(clientID, wanted, c.next.tools)
	has := func(name string) bool {
		return slices.ContainsFunc(own, func(d toolkit.Definition) bool { return d.Name == name })
	}
	more := slices.DeleteFunc(slices.Clone(c.client.declared[side]),
		func(d toolkit.Definition) bool { return has(d.Name) })
	if err := c.client.use(c.client.declared.with(side, append(more, own...))); err != nil {
		c.refuse(clientID, "invalid_value", err.Error(), "response.tools")
		own = nil
	}
	return encode(slices.DeleteFunc(definitions(c.client.registry), func(t realtime.Tool) bool {
		return c.client.isDeclared(t.Name) && !has(t.Name)
	}))
}

// sendNext sends what is waiting. A client of whose update nothing is accepted is answered by the upstream, too.
func (c *settings) sendNext() {
	if c.inFlight != nil || c.up.gone || c.up.stage < configuring {
		return // it goes with the first session.update, or after the one in flight
	}
	u := &update{patch: c.next}
	c.next = Patch{}
	if u.asked() || !u.patch.empty() {
		c.sendUpdate(u)
	}
}

// replaceTools replaces the server's tools and tells the upstream. Running tools go on. Tools that make the session too
// large are not taken: no later upstream session would accept them.
func (c *settings) replaceTools(entries []toolkit.Entry) {
	old := slices.DeleteFunc(c.client.registry.Entries(), func(e toolkit.Entry) bool {
		return e.Executor == toolkit.ExecutorClient || c.owns(e.Tool.Definition().Name)
	})
	entries = slices.DeleteFunc(slices.Clone(entries), func(e toolkit.Entry) bool {
		name := e.Tool.Definition().Name
		return c.client.isDeclared(name) || c.owns(name) // it was there first
	})
	err := c.client.registry.Replace(namesOf(old), entries)
	if err == nil && c.size(c.next) > c.up.room() {
		err = errors.Join(errors.New("the session would be too large"),
			c.client.registry.Replace(namesOf(entries), old))
	}
	if err != nil {
		c.log(slog.LevelWarn, "new tools refused", "error", err)
		return
	}
	c.do(ReplaceTools{Remove: namesOf(old), Add: entries})
	if c.up.stage < configuring && c.phase < live {
		return // they go with the first session.update
	}
	if !c.next.sets(setTools) {
		c.next.add(Patch{set: realtime.Settings{setTools: nil}})
	}
	c.sendNext()
}

// configure sends the bridge's settings with what the client has asked for so far.
func (c *settings) configure() {
	if opening := c.opening(); opening != "" && !c.up.can.ResponseSettings { // it takes them from the session alone
		c.Session.Instructions += "\n\nBegin the conversation. " + realtime.SayExactly + opening
	}
	c.start = c.Patch
	if c.start.sets(setTools) {
		c.start.tools = bySide{0: c.client.acceptable("", c.start.tools[0], nil)}
	}
	p, onTop := c.start, !c.next.empty() && !c.start.empty()
	p.add(c.next)
	c.next = Patch{}
	c.sendUpdate(&update{patch: p, first: true, onTop: onTop})
}

// configureNext sends the current settings to a session that is being prepared.
func (c *settings) configureNext(u *upstream) {
	u.updateID = u.eventID(sentEvent{kind: sentSession})
	u.settings = c.revision
	session := c.object(&update{first: true, patch: c.effective}, c.Session.With(u.route), u.can)
	u.send(realtime.SessionUpdate(u.updateID, session.Encode()))
}

// whole is what the next session will be configured with.
func (c *settings) whole() Whole {
	p := c.effective
	if p.empty() {
		p = c.Patch
		p.add(c.next)
	}
	return NewWhole(c.Session, p, c.client.registry)
}

// takeBack takes back the update that the lost session has not answered, to send it to the next one.
func (c *settings) takeBack() {
	u := c.inFlight
	if u == nil {
		return
	}
	again := u.patch
	again.add(c.next)
	c.next, c.inFlight = again, nil
}

// switched continues with another session. What has changed since it was configured is sent again.
func (c *settings) switched() {
	c.takeOver(&c.up.updated)
	c.described(&c.up.updated)
	c.up.updated = event{} // it is large
	if c.up.settings != c.revision {
		again := c.effective
		again.add(c.next)
		c.next = again
	}
	c.sendNext()
}

func (c *settings) sendUpdate(u *update) {
	if u.before == nil {
		u.before = c.client.declared.with(0, c.client.declared[0])
	}
	c.declare(u)
	u.eventID = c.up.eventID(sentEvent{kind: sentSession, clientID: firstOf(u.patch.eventIDs), forClient: u.asked()})
	if size := c.fit(u); size > c.up.room() {
		c.inFlight = u
		c.refused(c.tooLarge(size, slices.Sorted(maps.Keys(u.patch.set))))
		return
	}
	if !u.first {
		u.by = c.now.Add(updateTimeout)
	}
	c.inFlight = u
	c.up.send(realtime.SessionUpdate(u.eventID, c.object(u, c.Session, c.up.can).Encode()))
}

// fit makes a session's first update, which has everything that the client wants, small enough for the upstream. It
// leaves out no more than what is too large, and tells the client: its last tools, then its instructions. The server's
// tools and instructions stay: without them, it would be another model. Later updates are taken whole or not at all.
// It returns the size of the session.
func (c *settings) fit(u *update) int {
	size := c.size(u.patch)
	over := size - c.up.room()
	if over <= 0 || !u.first || c.Fixed || u.patch.empty() {
		return size
	}
	whole, left := u.patch, []string(nil)
	for own := u.patch.tools[0]; len(own) > 0 && over > 0; {
		last := own[len(own)-1]
		own = own[:len(own)-1]
		u.patch.tools = u.patch.tools.with(0, own)
		over -= len(last.Name) + len(last.Description) + len(last.Parameters)
		left = append(left, "tools["+last.Name+"]")
	}
	if u.patch.sets(setInstructions) && over > 0 {
		u.patch = u.patch.without(setInstructions)
		left = append(left, setInstructions)
	}
	c.declare(u)
	rest := c.size(u.patch)
	if rest > c.up.room() {
		u.patch = whole
		return rest
	}
	c.sendError(*c.tooLarge(size, left), u.patch.eventIDs...)
	return rest
}

// size returns how large the session.update with the whole session becomes with that change: a later upstream session
// gets it at once.
func (c *settings) size(change Patch) int {
	whole := c.effective
	whole.add(change)
	object := c.object(&update{first: true, patch: whole}, c.Session, c.up.can).Encode()
	return len(realtime.SessionUpdate(ownPrefix+"0000000", object))
}

// tooLarge is the error about a session of that size, of which fields were left out.
func (c *settings) tooLarge(size int, fields []string) *realtime.Error {
	c.log(slog.LevelWarn, "session too large for the upstream", "bytes", size, "limit", c.up.room(), "left_out", fields)
	e := &realtime.Error{
		Type: "invalid_request_error", Code: "session_too_large", Param: "session",
		Message: fmt.Sprintf("The session has %d bytes; the upstream takes %d.", size, c.up.room()),
	}
	if len(fields) > 0 {
		e.Message += " Left out: " + strings.Join(fields, ", ") + "."
	}
	return e
}

// declare makes the tools in an update the client's, or takes them out of it if they cannot be used.
func (c *settings) declare(u *update) {
	if !u.patch.sets(setTools) {
		return
	}
	next := maps.Clone(c.client.declared)
	if next == nil {
		next = make(bySide)
	}
	maps.Copy(next, u.patch.tools)
	if err := c.client.use(next); err != nil {
		c.refuse(firstOf(u.patch.eventIDs), "invalid_value", err.Error(), "session.tools")
		u.patch = u.patch.without(setTools)
	}
}

// described takes what the upstream says about its session, and returns the voice: a name, or the id of a custom one.
func (c *settings) described(ev *event) (voice string) {
	var audio struct {
		Input struct {
			Turns json.RawMessage `json:"turn_detection"`
		}
		Output struct{ Voice json.RawMessage }
	}
	_ = json.Unmarshal(realtime.Member(ev.Session, "audio"), &audio) // what cannot be read is not said
	turns := audio.Input.Turns
	c.pushToTalk = string(turns) == "null"
	c.noReply = !replies(turns)
	var own struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(audio.Output.Voice, &voice) != nil && json.Unmarshal(audio.Output.Voice, &own) == nil {
		voice = own.ID
	}
	return clip(voice)
}

// updated takes the upstream's session.updated. It reports who sees it; sendNext must follow.
func (c *settings) updated(ev *event) audience {
	voice := c.described(ev)
	if voice != "" && voice != c.record.Voice {
		c.record.Voice = voice
		c.saveCall()
	}
	u := c.inFlight
	if u == nil {
		return everybody
	}
	c.inFlight = nil
	c.effective.add(u.patch)
	c.effective.eventIDs = nil
	c.revision++
	waiting := u.patch.eventIDs
	if len(waiting) == 0 && c.next.empty() { // it also answers an update of which nothing was accepted
		waiting, c.next.eventIDs = c.next.eventIDs, nil
	}
	if len(waiting) == 0 {
		return nobody
	}
	c.next.eventIDs = append(waiting[1:], c.next.eventIDs...) // each gets an answer of its own
	if side, _ := asked(waiting[0]); side != 0 {
		return sidebands
	}
	return everybody
}

// refused takes the upstream's refusal of a session.update.
func (c *settings) refused(e *realtime.Error) {
	u := c.inFlight
	if u == nil || (e.EventID != "" && e.EventID != u.eventID) {
		return // it was given up
	}
	c.inFlight = nil
	switch {
	case e.Code == "cannot_update_voice" && !u.noVoice:
		again := *u
		again.noVoice, again.patch = true, u.patch.without(setVoice)
		c.sendUpdate(&again)
	case !(c.Fixed && u.first) && len(u.patch.set) > 1 && u.patch.named(e.Param) != "": // the rest is tried
		c.sendError(*e, u.patch.eventIDs...)
		again := *u
		again.patch = u.patch.without(u.patch.named(e.Param))
		c.sendUpdate(&again)
	case !u.patch.empty():
		if u.patch.sets(setTools) {
			if err := c.client.use(u.before); err != nil {
				c.log(slog.LevelError, "client tools not restored", "error", err)
			}
		}
		c.sendError(*e, u.patch.eventIDs...)
		switch {
		case !u.first:
			c.sendNext()
		case u.onTop:
			c.sendUpdate(&update{patch: c.start, first: true, noVoice: u.noVoice})
		case c.Fixed && !c.start.empty(): // without it, the page would talk to another assistant
			c.reject(e)
		default:
			c.sendUpdate(&update{first: true, noVoice: u.noVoice})
		}
	case u.first: // the error may quote the server's instructions or tools
		c.reject(e)
	default:
		c.sendError(*e, u.patch.eventIDs...)
		c.sendNext()
	}
}

// reject gives up the session: the call ends.
func (c *settings) reject(e *realtime.Error) {
	c.log(slog.LevelError, "session refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
	c.mustEnd = EndSessionRejected
}

func firstOf(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}

// object returns the session of the update for an upstream: the client's part and, in a session's first update, the
// operator's settings. If it has tools, they are all those of the call.
func (c *settings) object(u *update, own Defaults, can Capabilities) realtime.Settings {
	s := realtime.Settings{}
	if u.first {
		s = own.settings()
	}
	maps.Copy(s, u.patch.set)
	if u.patch.sets(setTranscription) {
		s[setTranscription] = own.transcription(u.patch.set[setTranscription])
	}
	if turns := s[setTurns]; c.Session.judges(can) && replies(turns) && realtime.Tree(turns) != nil {
		s[setTurns] = replaced(turns, "create_response", encode(false))
	}
	if u.noVoice {
		delete(s, setVoice)
	}
	if u.first || u.patch.sets(setTools) {
		s[setTools] = encode(definitions(c.client.registry))
	}
	s["type"] = encode("realtime")
	return s
}

// takeOver takes that the session leaves answers to the bridge, and shows it to clients as they or the operator want
// it.
func (c *settings) takeOver(ev *event) {
	turns := realtime.Member(ev.Session, "audio", "input", "turn_detection")
	if turns == nil {
		return
	}
	wanted := c.Session.TurnDetection.Object()
	if c.effective.sets(setTurns) {
		wanted = c.effective.set[setTurns]
	}
	if u := c.inFlight; u != nil && u.patch.sets(setTurns) {
		wanted = u.patch.set[setTurns]
	}
	c.padding = leftOut(turns)
	c.asks = c.Session.judges(c.up.can) && !replies(turns) && replies(wanted)
	session := realtime.Tree(ev.Raw)
	if !c.asks || session == nil {
		return
	}
	realtime.Put(session, "session.audio.input.turn_detection.create_response", true)
	if shown, err := readEvent(realtime.Encode(session)); err == nil {
		*ev = shown
	}
}

// instructions are those of the session.
func (c *settings) instructions() string {
	if c.effective.sets(setInstructions) {
		return textOf(c.effective.set[setInstructions])
	}
	return c.Session.Instructions
}

// update is a session.update that the upstream has not answered yet.
type update struct {
	eventID string
	patch   Patch // the client's part
	first   bool  // it contains the bridge's own settings
	onTop   bool  // the client's part comes on top of the session with which the call was started
	noVoice bool
	before  bySide    // the clients' tools before the update
	by      time.Time // when to give up; zero for the first one, without which there is no call
}

// asked reports whether the client is waiting for the answer.
func (u *update) asked() bool { return len(u.patch.eventIDs) > 0 }
