package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// generated are the responses that the upstream generates or has generated, and those of the present turn.
type generated struct {
	*line
	transcript *transcript
	turn       turn

	// Responses write these, and all parts of the call read them.
	byID   map[string]*response
	newest string // id of the latest response
	active string // id of the conversation's response that is being generated
	// activeBy is when to give up on an active response that stalls.
	activeBy time.Time
	// blockedTill is set while the upstream has a response that we do not know about.
	blockedTill time.Time
	// saidBy is until when an answer that was written is expected to be said.
	saidBy time.Time
	// Speech and texts write these, the next response reads them.
	// asked is when the user's turn ended that is waiting for an answer.
	asked time.Time
	// committed is when the upstream committed that turn; zero for a typed one.
	committed time.Time
	// reached are the stages of the answer that a response without words has already reached; nil for none.
	reached map[string]int64
}

const (
	// responseTimeout is how long to wait for a stalled response.
	responseTimeout = 60 * time.Second
	// doneTimeout is the same for one of which everything is there, and whose tools have been answered.
	doneTimeout = 5 * time.Second
)

// stallsBy is when to give up on the active response: its end may never be told, and the answer to its tools waits for
// it.
func (g *generated) stallsBy() time.Time {
	r := g.byID[g.active]
	if r == nil || r.tools == 0 || r.open > 0 || slices.ContainsFunc(r.messages, (*message).open) {
		return g.activeBy
	}
	return g.activeBy.Add(doneTimeout - responseTimeout)
}

// justEnded reports whether a client may not have read yet that the last answer has ended.
func (g *generated) justEnded(t *told) bool {
	last, r := t.At, g.byID[g.newest]
	if r != nil && r.record.FinishedAt != nil && r.record.FinishedAt.After(last) {
		last = *r.record.FinishedAt
	}
	return !last.IsZero() && g.now.Before(last.Add(clientCreateWait))
}

// keepAlive records activity of the active response.
func (g *generated) keepAlive() {
	if g.active != "" {
		g.activeBy = g.now.Add(responseTimeout)
	}
}

func (g *generated) newResponse(id string, made *realtime.Response) *response {
	r := &response{id: id, asked: g.asked, latency: g.reached, record: records.Response{
		ID: g.newID(), CallID: g.CallID, Upstream: g.record.Upstream, UpstreamID: id,
		Model: cmp.Or(made.Model, g.Session.Model), Status: realtime.ResponseInProgress, CreatedAt: g.now,
	}, free: g.up.can.Duplex && !slices.Contains(made.Modalities, "text")}
	r.stage(stageCommit, g.committed)
	r.stage(stageResponse, g.now)
	g.turnEnded(time.Time{})
	g.byID[id], g.newest = r, id
	g.joinTurn(r)
	g.keep(r)
	return r
}

// awaitsSound reports whether the caller has not heard anything yet of a response that will be spoken.
func (r *response) awaitsSound() bool {
	return r.heard.IsZero() && slices.ContainsFunc(r.messages, func(m *message) bool {
		return !m.silent && m.text() != "" && m.meta.Status == thread.StatusCompleted
	})
}

// turnOver reports the turn, if anything was made in it. What is still being made is of the next one.
func (g *generated) turnOver() {
	over, rest := Turn{Charges: g.turn.charges}, turn{}
	for _, r := range g.turn.responses {
		if !r.done {
			rest.responses, rest.asked = append(rest.responses, r), r.asked
			continue
		}
		over.Responses = append(over.Responses, r.record)
		if len(r.latency) > len(over.Latency) { // one that goes on from another has the stages of both
			over.Latency = r.latency
		}
	}
	if len(over.Responses)+len(over.Charges) > 0 {
		g.do(TurnOver{Turn: over})
	}
	g.turn = rest
}

// joinTurn makes a response part of the turn, or the first of the next one if it answers something else.
func (g *generated) joinTurn(r *response) {
	if !r.asked.IsZero() && !r.asked.Equal(g.turn.asked) {
		g.turnOver()
		g.turn.asked = r.asked
	}
	g.turn.responses = append(g.turn.responses, r)
}

// turnEnded records when the turn of the user ended that the next response answers; zero means that none waits.
func (g *generated) turnEnded(at time.Time) {
	g.asked, g.committed = at, time.Time{}
	g.reached = nil
}

// handOn passes what a response was to answer on to the next one, if it made only tool calls: the
// next one speaks the first words.
func (g *generated) handOn(r *response) {
	silent := !slices.ContainsFunc(r.messages, func(m *message) bool { return m.text() != "" })
	if r.tools > 0 && silent && r.record.AnswerMS == nil && !r.asked.IsZero() && g.asked.IsZero() {
		g.asked, g.reached = r.asked, r.latency
	}
}

// The stages of an answer, as saved in the latency of its first message: in milliseconds since the
// end of the user's turn, spoken or typed.
const (
	stageCommit      = "commit"       // the upstream has committed the utterance
	stageResponse    = "response"     // it has begun to answer
	stageFirstAudio  = "first_audio"  // it has begun to speak
	stageFirstPacket = "first_packet" // the first audio was sent to the caller
)

// stage records when a stage was first reached, and returns the message that stores it, nil if
// there is none yet or nothing was recorded.
func (r *response) stage(name string, at time.Time) *message {
	if _, is := r.latency[name]; is || r.asked.IsZero() || at.IsZero() {
		return nil
	}
	latency := map[string]int64{name: max(at.Sub(r.asked).Milliseconds(), 0)}
	maps.Copy(latency, r.latency) // the present map may be on its way to the database
	r.latency = latency
	if len(r.messages) == 0 {
		return nil
	}
	r.messages[0].meta.LatencyMS = latency
	return r.messages[0]
}

// answered records when an answer began to be spoken.
func (g *generated) answered(r *response, at time.Time) {
	g.stageReached(r, stageFirstAudio, at)
	r.record.AnswerMS = new(r.latency[stageFirstAudio])
	g.keep(r)
}

// stageReached records a stage of an answer.
func (g *generated) stageReached(r *response, stage string, at time.Time) {
	if m := r.stage(stage, at); m != nil && !m.open() {
		g.transcript.write(m) // otherwise it comes with the words
	}
}

// soundSent records that the first audio of an answer was sent to the caller. An upstream that does not report when
// audio begins has begun to speak then.
func (g *generated) soundSent(responseID string, at time.Time) {
	r := g.byID[responseID]
	if r == nil || r.asked.IsZero() {
		return
	}
	if r.record.AnswerMS == nil {
		g.answered(r, at)
	}
	g.stageReached(r, stageFirstPacket, at)
}

// of finds the response, even one that was never announced; without an id the active one.
func (g *generated) of(id string) *response {
	id = cmp.Or(id, g.active)
	if r := g.byID[id]; r != nil || id == "" {
		return r
	}
	return g.newResponse(id, new(realtime.Response))
}

// keep saves the record of a response, unless it costs nothing.
func (g *generated) keep(r *response) {
	if !r.free {
		g.save(persistence.PutResponse{Response: r.record})
	}
}

// over records that a response is no longer being generated. It may still be heard.
func (g *generated) over(r *response) {
	r.done = true
	if g.active == r.id {
		g.active, g.activeBy = g.other(r), time.Time{}
	}
	g.blockedTill = time.Time{}
	if g.up.can.Duplex && r.tools == 0 && len(r.messages) == 0 { // it is not heard: another one is about to say it
		g.saidBy = g.now.Add(saidWait)
	}
}

// other returns the id of another response that is being made, empty if there is none.
func (g *generated) other(than *response) (id string) {
	newest := than
	for _, r := range g.byID {
		if g.up.can.Duplex && r != than && r.created && !r.done &&
			(newest == than || r.record.CreatedAt.After(newest.record.CreatedAt)) {
			newest, id = r, r.id
		}
	}
	return id
}

// close saves how a response ended, and returns what it has cost; nil means unknown. One that is a part of an answer
// adds to what that has used.
func (g *generated) close(r *response, done *realtime.Response) (cost *float64) {
	rec := &r.record
	rec.Status, rec.FinishedAt = done.Status, new(g.now)
	rec.StatusReason = done.StatusDetails.Reason
	if e := done.StatusDetails.Error; e != nil && rec.StatusReason == "" {
		rec.StatusReason = e.Code
	}
	if done.Usage != nil {
		u, less := g.believed(*done.Usage, rec.CreatedAt)
		cost = g.Cost(rec.Upstream, rec.Model, u)
		rec.RawUsage, rec.Estimated = u.Raw, rec.Estimated || less
		if rec.CostUSD == nil || cost == nil {
			rec.CostUSD = cost
		} else {
			rec.CostUSD = new(*rec.CostUSD + *cost)
		}
		all := &rec.Usage
		all.InputTokens, all.OutputTokens = all.InputTokens+u.InputTokens, all.OutputTokens+u.OutputTokens
		all.CachedTokens += u.Cached
		all.InputAudioTokens += u.InputAudio
		all.OutputAudioTokens += u.OutputAudio
		g.notify(usageEvent{Type: "bridge.usage", ResponseID: r.id, Usage: u.Raw, CostUSD: cost})
	}
	g.keep(r)
	return cost
}

// closeAll closes the records of unfinished responses.
func (g *generated) closeAll(why string) {
	g.activeBy = time.Time{}
	for _, id := range slices.Sorted(maps.Keys(g.byID)) {
		if r := g.byID[id]; !r.done {
			r.done = true
			r.record.Status, r.record.StatusReason = realtime.ResponseCancelled, why
			r.record.FinishedAt = new(g.now)
			g.keep(r)
			g.tellDone(r)
		}
	}
}

// tellDone tells the browser that a response is over of which the upstream does not say so: OpenAI's SDK asks for no
// other before.
func (g *generated) tellDone(r *response) {
	if r.created {
		// nobody else has cancelled it, as far as the API knows
		details := map[string]any{"type": r.record.Status, "reason": "client_cancelled"}
		if r.record.Status == realtime.ResponseFailed {
			details = map[string]any{
				"type": r.record.Status, "error": map[string]any{"type": "server_error", "code": r.record.StatusReason},
			}
		}
		g.notify(
			map[string]any{"type": realtime.TypeResponseDone, "event_id": g.ownEventID(), "response": map[string]any{
				"id": r.id, "object": "realtime.response", "status": r.record.Status, "status_details": details,
				"output": []any{},
			}})
	}
}

// message finds or makes the message of an assistant's item; r is its response, nil if that is unknown. A new one is
// then taken to be of the active response.
func (g *generated) message(it *item, r *response) *message {
	m := it.message
	if m == nil {
		r = cmp.Or(r, g.of(""))
	}
	switch {
	case m == nil && r != nil && r.resumes != nil:
		m, r.resumes = r.resumes, nil
		it.message, m.goesOn = m, it
		m.rests = append(m.rests, it.id)
		m.note(metaRests, m.rests)
		return m
	case m == nil:
		m = g.transcript.newMessage(it, thread.RoleAssistant, thread.SourceVoice)
	case m.response != nil, m.role != thread.RoleAssistant:
		return m
	}
	if r != nil {
		m.response = r
		if len(r.messages) == 0 {
			m.meta.LatencyMS = r.latency
		}
		if r.done { // nobody will say so again
			m.end(thread.StatusCompleted)
		}
		r.messages = append(r.messages, m)
		r.record.MessageID = cmp.Or(r.record.MessageID, m.id)
	}
	return m
}

// messageOf finds the message of an event with words of an answer, nil if there is none.
func (g *generated) messageOf(ev *event, it *item) *message {
	if it == nil || it.seeded || (it.raw.Type != "" && it.raw.Type != realtime.ItemMessage) {
		return nil
	}
	var r *response
	if ev.ResponseID != "" {
		r = g.of(ev.ResponseID)
	}
	m := g.message(it, r)
	if r = m.response; r != nil && !r.asked.IsZero() && r.record.FirstTokenMS == nil {
		r.record.FirstTokenMS = new(g.now.Sub(r.asked).Milliseconds())
	}
	return m
}

// resume has a response of the upstream, of which id is the id, be a part of the response of a message, which goes on.
func (g *generated) resume(m *message, id string) *response {
	r := m.response
	g.byID[id], g.newest = r, id // what is told of it by the id before is of it, too
	r.id, r.done, r.resumes = id, false, m
	r.messages, r.tools, r.open = []*message{m}, 0, 0
	r.calls, r.excess = nil, false
	r.record.Status, r.record.StatusReason = realtime.ResponseInProgress, ""
	r.record.FinishedAt = nil
	g.keep(r)
	m.goOn()
	if !slices.Contains(g.transcript.growing, m) {
		g.transcript.growing = append(g.transcript.growing, m)
	}
	return r
}
