package session

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"voicebridge/realtime"
)

// responses asks for answers, one at a time: the upstream refuses a response.create while a
// response is active.
//
// A need is something in the conversation that nobody has answered yet: a typed text, the output of
// a tool, a client's response.create. Every response answers the needs that the upstream had when
// it began. When the conversation is quiet, one response.create covers all remaining needs.
type responses struct {
	*generated

	// Only responses write these; a new session reads them, and what may be forgotten.
	needs  []need
	create *creation // our response.create that has no reply yet
	last   *creation // the previous one, whose refusal may still come
	// Speech writes these, until they are due.
	// replyTill is set while the upstream is about to answer an utterance by itself.
	replyTill time.Time
	// speechTill is set while the user speaks.
	speechTill time.Time
	// questionLost means that some of what the caller said is lost with the session that has heard it, as switching
	// says.
	questionLost bool
	// greeted means that the greeting was asked for, or is no longer due.
	greeted bool
	// notice is the response that is the announcement, and notices counts how often it was not heard to its end.
	notice  string
	notices int
	// rounds counts the responses with tool calls since the user's last words. Tools count, texts and speech begin
	// anew.
	rounds int
	// fillers counts what was said while tools were running.
	fillers int
	// judging means that nothing is answered until it is known whether the caller has interrupted an answer.
	judging bool
	// serverAsksBy is until when an application's server that has answered a tool call is expected to ask for a
	// response: with settings of its own, and names by which it finds it. Zero if it is not. Tools write it.
	serverAsksBy time.Time
}

// need is something that nobody has answered yet.
type need struct {
	id    string    // id of the item; empty for a client's response.create without its own text
	batch *response // the one whose tool calls it belongs to
	acked bool      // the upstream has it
	tries int       // how often it was requested without a reply
	// resumes is the answer that goes on, if that is what is needed.
	resumes *message
	// response holds the client's fields for the response; nil if there are none.
	response map[string]json.RawMessage
	// eventIDs are those of the client's events that ask for the response.
	eventIDs []string
}

// againID is the id of the need for an answer that was cut off.
const againID = "again"

// again asks for an answer that was cut off once more, if its question is known.
func (q *responses) again() {
	if !q.questionLost && !slices.ContainsFunc(q.needs, func(n need) bool { return n.id == againID }) {
		q.need(need{id: againID})
	}
}

// greetingID is the id of the need for a greeting.
const greetingID = "greeting"

// greet asks for the greeting, if there is one and the caller, who is the first to be there, can hear it.
func (q *responses) greet(connected bool) {
	if q.opening() == "" || q.greeted || q.phase != live || !connected {
		return
	}
	q.greeted = true
	text := q.opening()
	if q.NoticeFirst && q.up.can.ResponseSettings {
		text = q.Announcement // the greeting comes after it
	}
	if q.Announcement != "" || q.rounds == 0 && q.record.Turns == 0 && q.active == "" && len(q.needs) == 0 {
		q.say(text)
	}
}

// say has the model say a text as it is, unless there is something to answer.
func (q *responses) say(text string) {
	q.need(need{id: greetingID, acked: true, response: says(realtime.SayExactly + text)})
}

// says are the fields of a response that follows instructions and calls no tools.
func says(instructions string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"instructions": encode(instructions), "tool_choice": encode("none")}
}

// notAgain withdraws the request for an answer that was cut off: the client has stopped it.
func (q *responses) notAgain() { q.giveUp(func(n need) bool { return n.id == againID }) }

// maxTries is how often an unanswered response.create is sent.
const maxTries = 2

// creation is a response.create of ours.
type creation struct {
	eventID string
	by      time.Time
	needs   []need
	// assumed means that its reply may have been another response.
	assumed bool
	filler  bool // nobody has asked for it
	alone   bool // its response is the announcement, and answers nothing
	// unwanted means that its response must be cancelled at once.
	unwanted bool
}

// has reports whether the need was part of the request.
func (c *creation) has(n need) bool {
	return c != nil && slices.ContainsFunc(c.needs, func(o need) bool { return o.id == n.id })
}

// resumes returns the answer that its response is to go on with, nil if it makes another.
func (c *creation) resumes() *message {
	if c == nil || c.unwanted || len(c.needs) != 1 {
		return nil
	}
	return c.needs[0].resumes
}

func (q *responses) deadline() time.Time {
	at := until(q.blockedTill, q.replyTill)
	at = until(at, q.speechTill)
	at = until(at, q.stallsBy())
	at = until(at, q.serverAsksBy)
	if q.create != nil {
		at = until(at, q.create.by)
	}
	return at
}

// began takes response.created. It reports whether somebody wants to hear the response.
func (q *responses) began(made *realtime.Response) (wanted bool) {
	id := made.ID
	r := q.byID[id]
	if r != nil && (r.created || r.done) {
		return false
	}
	if m := q.create.resumes(); r == nil && m != nil {
		r = q.resume(m, id)
	} else if r == nil {
		r = q.newResponse(id, made)
	}
	r.created = true
	q.active, q.activeBy = id, q.now.Add(responseTimeout)
	q.replyTill, q.blockedTill, q.saidBy = time.Time{}, time.Time{}, time.Time{}
	asked := q.create != nil || !r.free // otherwise it says what was written before
	// This response answers the needs that the upstream has, including those sent before our own
	// request for it. A client's request is for a response that comes after it: this one.
	q.last, q.create = q.create, nil
	if q.last != nil && q.last.unwanted {
		q.up.cancel(id)
	}
	if q.last != nil && q.last.alone {
		q.notice = id
	}
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool {
		return q.last.has(n) || asked && (q.last == nil || !q.last.alone) && (n.acked || n.id == "")
	})
	return q.last == nil || !q.last.unwanted && !q.last.filler
}

// unannounced treats a response that ended before it was announced, as an interruption can make it, as the reply to our
// request. If the upstream refuses the request after all, that response has answered nothing.
func (q *responses) unannounced() {
	if q.create == nil {
		return
	}
	q.last, q.create = q.create, nil
	q.last.assumed = true
	q.needs = slices.DeleteFunc(q.needs, q.last.has)
}

func (q *responses) onTime() {
	for _, t := range []*time.Time{&q.blockedTill, &q.replyTill, &q.speechTill, &q.serverAsksBy} {
		if q.due(*t) {
			*t = time.Time{}
		}
	}
	if q.create != nil && q.due(q.create.by) {
		q.unanswered()
	}
}

// unanswered gives up a request without a reply, and after the last attempt the needs behind it.
func (q *responses) unanswered() {
	c := q.create
	q.create = nil
	q.log(slog.LevelWarn, "response.create was not answered", "event_id", c.eventID)
	for i := range q.needs {
		if n := &q.needs[i]; c.has(*n) {
			n.tries++
		}
	}
	if dropped := q.giveUp(func(n need) bool { return n.tries >= maxTries }); len(dropped) > 0 {
		q.sendCreateError(dropped, realtime.Error{
			Type: "server_error", Code: "response_create_timeout", Message: "The upstream does not answer.",
		})
	}
}

// giveUp removes the needs for which which is true, and returns them.
func (q *responses) giveUp(which func(need) bool) (dropped []need) {
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool {
		gone := which(n)
		if gone {
			dropped = append(dropped, n)
		}
		return gone
	})
	return dropped
}

// sendCreateError tells whoever is waiting for an answer why none comes: each of the client's events that asked for it.
func (q *responses) sendCreateError(needs []need, e realtime.Error) {
	var ids []string
	for _, n := range needs {
		ids = append(ids, n.eventIDs...)
	}
	q.sendError(e, ids...)
}

// answerable reports whether an answer to the need can be requested: the response that it belongs to, if any, is done
// and all its tool calls are answered.
func (q *responses) answerable(n need) bool {
	return n.batch == nil || n.batch.done && n.batch.open == 0
}

// busy reports whether somebody is speaking, or about to.
func (q *responses) busy() bool {
	return q.judging || q.active != "" || q.create != nil || !q.blockedTill.IsZero() || !q.replyTill.IsZero() ||
		!q.speechTill.IsZero()
}

// answeredAll reports whether no answer is being made or will be asked for.
func (q *responses) answeredAll() bool { return q.active == "" && q.create == nil && len(q.needs) == 0 }

// need records something that needs an answer.
func (q *responses) need(n need) { q.needs = append(q.needs, n) }

// askForAnswer sends the response.create that is due, if any.
func (q *responses) askForAnswer() {
	if !q.listening() || q.away || q.isLeaving || q.busy() || !q.serverAsksBy.IsZero() ||
		!slices.ContainsFunc(q.needs, q.answerable) {
		return
	}
	spent := q.ToolRounds > 0 && q.rounds >= q.ToolRounds
	if spent {
		q.log(slog.LevelWarn, "tool rounds used up", "rounds", q.rounds)
	}
	if spent && !q.up.can.ResponseSettings { // it would call tools again
		dropped := q.giveUp(func(need) bool { return true })
		q.sendCreateError(dropped,
			realtime.Error{Code: "turn_stopped", Message: "The turn was stopped: it has used up its rounds of tools."})
		return
	}
	asked := slices.Clone(q.needs)
	i := slices.IndexFunc(asked, func(n need) bool { return n.id == greetingID })
	alone := i >= 0 && q.Announcement != ""
	if alone {
		asked = asked[i : i+1] // it is said before anything is answered
	}
	response := make(map[string]json.RawMessage)
	for _, n := range asked {
		if (n.id == greetingID || n.resumes != nil) && len(asked) > 1 {
			continue // there is something to answer
		}
		maps.Copy(response, n.response)
	}
	if spent {
		response["tool_choice"] = encode("none")
	}
	q.request(creation{needs: asked, alone: alone}, response)
	if slices.ContainsFunc(asked, func(n need) bool { return n.tries > 0 }) {
		q.up.wordBy = until(q.up.wordBy, q.create.by)
	}
}

// request sends a response.create, with fields for the response if the upstream takes any.
func (q *responses) request(c creation, response map[string]json.RawMessage) {
	c.eventID, c.by = q.up.eventID(sentEvent{kind: sentCreate}), q.now.Add(q.FirstWord/maxTries)
	q.create = &c
	if len(response) == 0 || !q.up.can.ResponseSettings {
		q.up.send(realtime.ResponseCreate(c.eventID))
		return
	}
	q.up.send(encode(map[string]any{
		"type": realtime.TypeResponseCreate, "event_id": c.eventID, "response": response,
	}))
}

// sayFiller has the voice say that a tool is still running: the next of the lines for that, or in its own words.
func (q *responses) sayFiller() {
	filler := "Say in one short sentence, in the caller's language, that you are still working on it. " +
		"Do not say anything else."
	if n := len(q.FillerLines); n > 0 {
		filler = realtime.SayExactly + q.FillerLines[q.fillers%n]
	}
	q.fillers++
	q.request(creation{filler: true}, says(filler))
}

// stop gives up all needs, even those whose request may still be refused, and ends the answer that is being made.
func (q *responses) stop() {
	for _, n := range q.needs {
		if len(n.eventIDs) > 0 && !q.create.has(n) { // otherwise the client sees its response cancelled
			q.sendError(realtime.Error{
				Code: "turn_stopped", Message: "The turn was stopped before the model was asked.",
			}, n.eventIDs...)
		}
	}
	q.needs, q.last, q.judging = nil, nil, false
	switch {
	case q.active != "":
		q.up.cancel(q.active)
	case q.create != nil:
		q.create.unwanted = true
	}
}

// acked records that the upstream has an item.
func (q *responses) acked(itemID string) {
	q.typedIs(itemID)
	mark := func(needs []need) {
		for i := range needs {
			needs[i].acked = needs[i].acked || needs[i].id == itemID
		}
	}
	mark(q.needs)
	if q.create != nil {
		mark(q.create.needs)
	}
}

// drop forgets the need of an item that the upstream refused, even if it has been requested, and returns it unless it
// was.
func (q *responses) drop(itemID string) (waiting []need) {
	if itemID == "" {
		return nil
	}
	q.typedIs(itemID)
	refused := func(n need) bool { return n.id == itemID }
	dropped := q.giveUp(refused)
	if !q.create.has(need{id: itemID}) {
		waiting = dropped
	}
	for _, c := range []*creation{q.create, q.last} {
		if c != nil {
			c.needs = slices.DeleteFunc(c.needs, refused)
		}
	}
	return waiting
}

// createRefused takes the error about our response.create.
func (q *responses) createRefused(eventID string, e *realtime.Error) {
	var c *creation
	switch {
	case q.create != nil && (eventID == "" || q.create.eventID == eventID):
		c, q.create = q.create, nil
	case q.last != nil && q.last.eventID == eventID:
		// Another response came first. It has not seen what was not acknowledged when it began.
		c, q.last = q.last, nil
		for _, n := range c.needs {
			if (!n.acked || c.assumed) && n.id != "" &&
				!slices.ContainsFunc(q.needs, func(o need) bool { return o.id == n.id }) {
				q.needs = append(q.needs, n)
			}
		}
	default:
		return
	}
	if e.Code == codeActiveResponse {
		if q.active == "" {
			q.blockedTill = q.now.Add(createTimeout)
		}
		return
	}
	q.log(slog.LevelWarn, "response.create refused", "code", e.Code, "error", e.Message)
	dropped := q.giveUp(c.has)
	if len(dropped) == 0 {
		dropped = c.needs // another response has answered them meanwhile
	}
	if !c.filler {
		q.sendCreateError(dropped, *e)
	}
}

// clientWantsAnswer takes a client's response.create, with its event_id and its fields for the response. batch and
// onItsWay are as from the tools.
func (q *responses) clientWantsAnswer(
	eventID string, fields map[string]json.RawMessage, batch *response, onItsWay bool,
) {
	side, _ := asked(eventID)
	t := q.told(side)
	q.serverAsksBy = time.Time{}
	expected := t.mayAsk && !t.isLate(q.now, func(id string) bool {
		r := q.byID[id]
		return r != nil && !r.record.CreatedAt.After(t.repliedAt)
	})
	t.mayAsk = false
	if expected {
		if q.create == nil && (len(q.needs) > 0 || onItsWay) && len(fields) > 0 { // it is not asked for yet
			q.need(need{batch: batch, response: fields, eventIDs: []string{eventID}})
			return
		}
		if q.answeredAll() && !onItsWay && len(t.Pending) == 0 && (t.Done == "" || t.Done == q.newest) {
			q.tellEmpty(side, fields)
		}
		return
	}
	i := slices.IndexFunc(q.needs, func(n need) bool { return n.id == t.typed })
	if i < 0 {
		i = len(q.needs)
		q.needs = append(q.needs, need{id: t.typed})
	}
	if eventID != "" {
		q.needs[i].eventIDs = append(q.needs[i].eventIDs, eventID)
	}
	if len(fields) > 0 {
		q.needs[i].response = fields
	}
}

// tellEmpty answers a client's response.create with a response that has nothing: the answer was there before. OpenAI's
// SDK asks for nothing more until it hears what became of this, and is alarmed by an error.
func (q *responses) tellEmpty(side int, fields map[string]json.RawMessage) {
	response := map[string]any{
		"object": "realtime.response", "id": "resp_" + q.nextItemID(), "status": realtime.ResponseInProgress,
		"status_details": nil, "output": []any{}, "usage": nil, "metadata": fields["metadata"],
	}
	for _, kind := range []string{realtime.TypeResponseCreated, realtime.TypeResponseDone} {
		q.sendTo(side, encode(map[string]any{"type": kind, "event_id": q.ownEventID(), "response": response}), false)
		response["status"] = realtime.ResponseCompleted
	}
}

// switched moves the needs to another upstream session, which was told everything that needs an answer.
func (q *responses) switched() {
	q.active, q.create = "", nil
	q.last, q.judging = nil, false
	for _, t := range q.clients {
		t.typed = ""
	}
	q.activeBy, q.blockedTill = time.Time{}, time.Time{}
	q.replyTill, q.speechTill = time.Time{}, time.Time{}
	for i := range q.needs {
		q.needs[i].acked, q.needs[i].tries = true, 0
	}
}
