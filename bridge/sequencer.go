package bridge

import (
	"log/slog"
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// sequencer asks for answers, never for two at a time: the upstream refuses a
// response.create while a response is active.
//
// A need is something in the conversation that nobody has answered yet: a typed
// text, the output of a tool, a client's response.create. Every response answers
// the needs that the upstream had when it began. What is left when the
// conversation is quiet gets one response.create together.
type sequencer struct {
	needs     []need
	responses map[string]*response
	active    string // the id of the conversation's response that is being generated

	create *creation // our response.create that has no reply yet
	last   *creation // the one before, whose refusal may still come
	// blockedTill is set when the upstream has a response that we do not know of.
	blockedTill time.Time
	// replyTill is set while the upstream is about to answer a spoken turn itself.
	replyTill time.Time
	// speechTill is set while the user speaks.
	speechTill time.Time
	// typed is the client's newest text that the upstream has not acknowledged. A
	// response.create of the client asks for the answer to it: a response that
	// began before the text does not count.
	typed string
	// clientAsks says that the client has answered a tool call. Its next
	// response.create asks for what the bridge does by itself. It may come as late as
	// after the answer; asksTill is set when that is there.
	clientAsks bool
	asksTill   time.Time
	// turn says that watchers were told of a turn that goes on.
	turn bool
}

type need struct {
	id    string // of the item; empty for a client's response.create without a text of its own
	batch string // the response whose tool calls it belongs to
	acked bool   // the upstream has it
	tries int    // how often it was asked for without a reply
}

// maxTries is how often a response.create that the upstream does not answer is
// sent.
const maxTries = 2

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

// has says whether the need is one that was asked for.
func (c *creation) has(n need) bool {
	return c != nil && slices.ContainsFunc(c.needs, func(o need) bool { return o.id == n.id })
}

// response is one response of the upstream.
type response struct {
	id       string
	record   persistence.ResponseRecord
	created  bool // it was announced
	done     bool
	messages []*message // in the order of their items
	tools    []*toolRun
	asked    time.Time // when the user's turn ended that it answers
}

// open counts the tool calls without an answer.
func (r *response) open() int {
	n := 0
	for _, t := range r.tools {
		if !t.done {
			n++
		}
	}
	return n
}

func (q *sequencer) deadline() time.Time {
	at := until(q.blockedTill, q.replyTill)
	at = until(at, q.speechTill)
	at = until(at, q.asksTill)
	if q.create != nil {
		at = until(at, q.create.by)
	}
	return at
}

func (q *sequencer) onTime(s *state) {
	for _, t := range []*time.Time{&q.blockedTill, &q.replyTill, &q.speechTill} {
		if s.due(*t) {
			*t = time.Time{}
		}
	}
	if s.due(q.asksTill) {
		q.asksTill, q.clientAsks = time.Time{}, false
	}
	if q.create != nil && s.due(q.create.by) {
		s.createUnanswered()
	}
}

// createUnanswered gives up the request that has no reply, and after the last try
// what it was for.
func (s *state) createUnanswered() {
	q := &s.turns
	c := q.create
	q.create = nil
	s.note(slog.LevelWarn, "response.create was not answered", "event_id", c.eventID)
	left := len(q.needs)
	for i := range q.needs {
		if n := &q.needs[i]; c.has(*n) {
			n.tries++
		}
	}
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool { return n.tries >= maxTries })
	if len(q.needs) < left {
		s.tellError(realtime.Error{Type: "server_error", Code: "response_create_timeout", Message: "The upstream does not answer."}, "")
	}
}

// ripe says whether a need can be asked for: the tool calls of its response are
// all answered and the response is done.
func (q *sequencer) ripe(n need) bool {
	r := q.responses[n.batch]
	return r == nil || (r.done && r.open() == 0)
}

// busy says that somebody speaks, or is about to.
func (q *sequencer) busy() bool {
	return q.active != "" || q.create != nil || !q.blockedTill.IsZero() || !q.replyTill.IsZero() || !q.speechTill.IsZero()
}

// askForAnswer sends the one response.create that is due, if any is.
func (s *state) askForAnswer() {
	q := &s.turns
	if s.phase != live || q.busy() || !slices.ContainsFunc(q.needs, q.ripe) {
		return
	}
	id := s.nextEventID(sentEvent{kind: sentCreate})
	q.create = &creation{eventID: id, by: s.now.Add(createTimeout), needs: slices.Clone(q.needs)}
	s.do(toUpstream{realtime.ResponseCreate(id)})
}

// acked notes that the upstream has an item.
func (q *sequencer) acked(itemID string) {
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
func (q *sequencer) drop(itemID string) {
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

// responseCreated takes response.created.
func (s *state) responseCreated(ev realtime.Event) {
	r, err := realtime.DecodeResponse(ev.Response)
	if err != nil || r.ID == "" {
		return
	}
	q := &s.turns
	if q.responses[r.ID] != nil {
		return
	}
	s.newResponse(r.ID).created = true
	q.active = r.ID
	q.replyTill, q.blockedTill = time.Time{}, time.Time{}
	// Needs that the upstream has are answered by this response, also those that
	// went out before our own request for it. A client's request is for a
	// response that comes after it: this one.
	q.last, q.create = q.create, nil
	if q.last != nil && q.last.unwanted {
		s.cancelResponse(r.ID)
	}
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool {
		return n.acked || n.id == "" || q.last.has(n)
	})
}

// unannounced takes a response that was over before it was announced, by an
// interruption, as the reply to our request. Should the upstream refuse that after
// all, nothing of it is answered.
func (q *sequencer) unannounced() {
	if q.create == nil {
		return
	}
	q.last, q.create = q.create, nil
	q.last.assumed = true
	q.needs = slices.DeleteFunc(q.needs, q.last.has)
}

func (s *state) newResponse(id string) *response {
	r := &response{id: id, asked: s.spoken.asked, record: persistence.ResponseRecord{
		ID: s.newID(), CallID: s.callID, UpstreamID: id, Model: s.session.Model,
		Status: realtime.ResponseInProgress, CreatedAt: s.now,
	}}
	s.spoken.asked = time.Time{}
	s.turns.responses[id] = r
	s.save(saveResponse{r.record})
	return r
}

// responseOf finds the response, one that was never announced too.
func (s *state) responseOf(id string) *response {
	if id == "" {
		id = s.turns.active
	}
	if r := s.turns.responses[id]; r != nil || id == "" {
		return r
	}
	return s.newResponse(id)
}

// responseDone takes response.done: everything is generated, though not heard.
func (s *state) responseDone(ev realtime.Event) {
	done, err := realtime.DecodeResponse(ev.Response)
	if err != nil || done.ID == "" {
		return
	}
	r := s.responseOf(done.ID)
	if r.done {
		return
	}
	if !r.created {
		s.turns.unannounced()
	}
	for i := range done.Output {
		s.outputDone(&done.Output[i], r, done.Status == realtime.ResponseCompleted)
	}
	r.done = true
	q := &s.turns
	if q.active == done.ID {
		q.active = ""
	}
	q.blockedTill = time.Time{}
	s.letAsk()
	s.closeMessages(r, &done)
	s.recordResponse(r, &done)
}

func (s *state) recordResponse(r *response, done *realtime.Response) {
	rec := &r.record
	rec.Status, rec.FinishedAt = done.Status, new(s.now)
	rec.StatusReason = done.StatusDetails.Reason
	if e := done.StatusDetails.Error; e != nil && rec.StatusReason == "" {
		rec.StatusReason = e.Code
	}
	if u := done.Usage; u != nil {
		rec.RawUsage, rec.CostUSD = u.Raw, s.cost(*u)
		rec.Usage = persistence.Usage{
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.Cached,
			InputAudioTokens: u.InputAudio, OutputAudioTokens: u.OutputAudio,
		}
		s.tell(usageEvent{Type: "bridge.usage", ResponseID: r.id, Usage: u.Raw, CostUSD: rec.CostUSD})
	}
	s.save(saveResponse{*rec})
}

// createRefused takes the error that answers our response.create.
func (s *state) createRefused(eventID string, e *realtime.Error) {
	q := &s.turns
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
			q.blockedTill = s.now.Add(createTimeout)
		}
		return
	}
	s.note(slog.LevelWarn, "response.create refused", "code", e.Code, "error", e.Message)
	q.needs = slices.DeleteFunc(q.needs, c.has)
	if !c.filler {
		// The one who waits for an answer must hear why none comes.
		s.tellError(*e, "")
	}
}

const codeActiveResponse = "conversation_already_has_active_response"

// clientWantsAnswer takes a client's response.create.
func (s *state) clientWantsAnswer() {
	q := &s.turns
	if q.clientAsks {
		q.clientAsks = false
		return
	}
	if !slices.ContainsFunc(q.needs, func(n need) bool { return n.id == q.typed }) {
		q.needs = append(q.needs, need{id: q.typed})
	}
}

// letAsk begins the time in which a client asks for the answer to its tool call,
// when it is there. A client that leaves this to the bridge may ask for another
// one later.
func (s *state) letAsk() {
	q := &s.turns
	onItsWay := func(r *toolRun) bool { return r.delivered && !r.done }
	if q.clientAsks && q.active == "" && q.create == nil && len(q.needs) == 0 && !slices.ContainsFunc(s.open, onItsWay) {
		q.asksTill = s.now.Add(asksAfter)
	}
}

// The events that tell the thread's watchers of turns.
const (
	turnStarted  persistence.EventType = "turn_started"
	turnFinished persistence.EventType = "turn_finished"
)

// tellTurn tells the thread's watchers when a turn begins and ends.
func (s *state) tellTurn() {
	q := &s.turns
	busy := s.phase == live && (q.active != "" || q.create != nil || len(q.needs) > 0 || s.toolsRun())
	if busy == q.turn {
		return
	}
	q.turn = busy
	kind := turnFinished
	if busy {
		kind = turnStarted
	}
	s.do(publish{kind, callEvent{CallID: s.callID}})
}
