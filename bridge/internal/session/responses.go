package session

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"voicebridge/realtime"
)

// responses asks for answers, never for two at a time: the upstream refuses a
// response.create while a response is active.
//
// A need is something in the conversation that nobody has answered yet: a typed
// text, the output of a tool, a client's response.create. Every response answers
// the needs that the upstream had when it began. What is left when the
// conversation is quiet gets one response.create together.
type responses struct {
	*line
	script *transcript

	needs  []need
	byID   map[string]*response
	active string // the id of the conversation's response that is being generated
	// activeBy is when an active response of which nothing more comes is given up.
	activeBy time.Time

	create *creation // our response.create that has no reply yet
	last   *creation // the one before, whose refusal may still come
	// blockedTill is set when the upstream has a response that we do not know of.
	blockedTill time.Time
	// replyTill is set while the upstream is about to answer a spoken turn itself.
	replyTill time.Time
	// speechTill is set while the user speaks.
	speechTill time.Time
	// asked is when the user's turn ended that waits for an answer.
	asked time.Time
	// committed is when the upstream took that turn; zero for a typed one.
	committed time.Time
	// rounds counts the responses with tool calls since the user's last words.
	rounds int
	// typed is the client's newest text that the upstream has not acknowledged. A
	// response.create of the client asks for the answer to it: a response that
	// began before the text does not count.
	typed string
	// clientAsks says that the client has answered a tool call. Its next
	// response.create asks for what the bridge does by itself. It may come as late as
	// after the answer; asksTill is set when that is there.
	clientAsks bool
	asksTill   time.Time
}

type need struct {
	id    string // of the item; empty for a client's response.create without a text of its own
	batch string // the response whose tool calls it belongs to
	acked bool   // the upstream has it
	tries int    // how often it was asked for without a reply
	// response are the fields of the response that a client has asked for; nil for none.
	response map[string]json.RawMessage
}

// maxTries is how often a response.create that the upstream does not answer is
// sent.
const maxTries = 2

// creation is a response.create of ours.
type creation struct {
	eventID string
	by      time.Time
	needs   []need
	// assumed says that its reply may have been another response.
	assumed bool
	filler  bool // nobody has asked for it
	// unwanted says that its response is to be cancelled at once.
	unwanted bool
}

// has reports whether the need is one that was asked for.
func (c *creation) has(n need) bool {
	return c != nil && slices.ContainsFunc(c.needs, func(o need) bool { return o.id == n.id })
}

func newResponses(l *line, script *transcript) responses {
	return responses{line: l, script: script, byID: make(map[string]*response)}
}

func (q *responses) deadline() time.Time {
	at := until(q.blockedTill, q.replyTill)
	at = until(at, q.speechTill)
	at = until(at, q.asksTill)
	at = until(at, q.activeBy)
	if q.create != nil {
		at = until(at, q.create.by)
	}
	return at
}

func (q *responses) onTime() {
	for _, t := range []*time.Time{&q.blockedTill, &q.replyTill, &q.speechTill} {
		if q.due(*t) {
			*t = time.Time{}
		}
	}
	if q.due(q.asksTill) {
		q.asksTill, q.clientAsks = time.Time{}, false
	}
	if q.create != nil && q.due(q.create.by) {
		q.unanswered()
	}
}

// unanswered gives up the request that has no reply, and after the last try what it
// was for.
func (q *responses) unanswered() {
	c := q.create
	q.create = nil
	q.log(slog.LevelWarn, "response.create was not answered", "event_id", c.eventID)
	left := len(q.needs)
	for i := range q.needs {
		if n := &q.needs[i]; c.has(*n) {
			n.tries++
		}
	}
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool { return n.tries >= maxTries })
	if len(q.needs) < left {
		q.sendError(realtime.Error{Type: "server_error", Code: "response_create_timeout", Message: "The upstream does not answer."}, "")
	}
}

// ripe reports whether a need can be asked for: the tool calls of its response are
// all answered and the response is done.
func (q *responses) ripe(n need) bool {
	r := q.byID[n.batch]
	return r == nil || (r.done && r.open == 0)
}

// busy says that somebody speaks, or is about to.
func (q *responses) busy() bool {
	return q.active != "" || q.create != nil || !q.blockedTill.IsZero() || !q.replyTill.IsZero() || !q.speechTill.IsZero()
}

// need notes what waits for an answer.
func (q *responses) need(n need) { q.needs = append(q.needs, n) }

// askForAnswer sends the one response.create that is due, if any is.
func (q *responses) askForAnswer() {
	if !q.listening() || q.away || q.busy() || !slices.ContainsFunc(q.needs, q.ripe) {
		return
	}
	id := q.up.eventID(sentEvent{kind: sentCreate})
	q.create = &creation{eventID: id, by: q.now.Add(createTimeout), needs: slices.Clone(q.needs)}
	response := map[string]any{}
	for _, n := range q.needs {
		for name, value := range n.response {
			response[name] = value
		}
	}
	if limit := q.Limits.ToolRounds; limit > 0 && q.rounds >= limit {
		q.log(slog.LevelWarn, "tool rounds used up", "rounds", q.rounds)
		response["tool_choice"] = "none"
	}
	if len(response) == 0 {
		q.up.send(realtime.ResponseCreate(id))
		return
	}
	q.up.send(encode(map[string]any{"type": realtime.TypeResponseCreate, "event_id": id, "response": response}))
}

// sayFiller has the voice say that a tool still runs.
func (q *responses) sayFiller() {
	id := q.up.eventID(sentEvent{kind: sentCreate})
	q.create = &creation{eventID: id, by: q.now.Add(createTimeout), filler: true}
	q.up.send(encode(map[string]any{
		"type": realtime.TypeResponseCreate, "event_id": id,
		"response": map[string]any{
			"instructions": "Say in one short sentence that you are still working on it. Do not say anything else.",
			"tool_choice":  "none",
		},
	}))
}

// stop gives up what waits for an answer, and ends the answer that is made.
func (q *responses) stop() {
	q.needs = nil
	switch {
	case q.active != "":
		q.up.cancel(q.active)
	case q.create != nil:
		q.create.unwanted = true
	}
}

// acked notes that the upstream has an item.
func (q *responses) acked(itemID string) {
	if q.typed == itemID {
		q.typed = ""
	}
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

// drop forgets the need of an item that the upstream refused, also when it has
// been asked for.
func (q *responses) drop(itemID string) {
	if itemID == "" {
		return
	}
	if q.typed == itemID {
		q.typed = ""
	}
	refused := func(n need) bool { return n.id == itemID }
	q.needs = slices.DeleteFunc(q.needs, refused)
	for _, c := range []*creation{q.create, q.last} {
		if c != nil {
			c.needs = slices.DeleteFunc(c.needs, refused)
		}
	}
}

// createRefused takes the error that answers our response.create.
func (q *responses) createRefused(eventID string, e *realtime.Error) {
	var c *creation
	switch {
	case q.create != nil && (eventID == "" || q.create.eventID == eventID):
		c, q.create = q.create, nil
	case q.last != nil && q.last.eventID == eventID:
		// Another response came first. It has not seen what was not acknowledged
		// when it began.
		c, q.last = q.last, nil
		for _, n := range c.needs {
			if (!n.acked || c.assumed) && n.id != "" && !slices.ContainsFunc(q.needs, func(o need) bool { return o.id == n.id }) {
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
	q.needs = slices.DeleteFunc(q.needs, c.has)
	if !c.filler {
		// The one who waits for an answer must hear why none comes.
		q.sendError(*e, "")
	}
}

const codeActiveResponse = "conversation_already_has_active_response"

// clientWantsAnswer takes a client's response.create.
func (q *responses) clientWantsAnswer(response map[string]json.RawMessage) {
	if q.clientAsks {
		q.clientAsks = false
		return
	}
	i := slices.IndexFunc(q.needs, func(n need) bool { return n.id == q.typed })
	if i < 0 {
		i = len(q.needs)
		q.needs = append(q.needs, need{id: q.typed})
	}
	if len(response) > 0 {
		q.needs[i].response = response
	}
}

// letAsk begins the time in which a client asks for the answer to its tool call,
// when it is there; onItsWay says that a client's answer is still with its tool. A
// client that leaves this to the bridge may ask for another one later.
func (q *responses) letAsk(onItsWay bool) {
	if q.clientAsks && q.active == "" && q.create == nil && len(q.needs) == 0 && !onItsWay {
		q.asksTill = q.now.Add(asksAfter)
	}
}

// moved takes the conversation to another upstream session, which knows all that
// waits for an answer.
func (q *responses) moved() {
	q.active, q.create, q.last, q.typed = "", nil, nil, ""
	q.activeBy, q.blockedTill, q.replyTill, q.speechTill = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	for i := range q.needs {
		q.needs[i].acked, q.needs[i].tries = true, 0
	}
}
