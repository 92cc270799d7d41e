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

// began takes response.created. It reports whether somebody wants to hear the response.
func (q *responses) began(made *realtime.Response) (wanted bool) {
	id := made.ID
	r := q.byID[id]
	if r != nil && (r.created || r.done) {
		return false
	}
	if r == nil {
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
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool {
		return q.last.has(n) || asked && (q.last == nil || !q.last.alone) && (n.acked || n.id == "")
	})
	return q.last == nil || !q.last.unwanted && !q.last.filler
}

// keepAlive records activity of the active response.
func (q *responses) keepAlive() {
	if q.active != "" {
		q.activeBy = q.now.Add(responseTimeout)
	}
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

func (q *responses) newResponse(id string, made *realtime.Response) *response {
	r := &response{id: id, asked: q.asked, latency: q.reached, record: records.Response{
		ID: q.newID(), CallID: q.CallID, Upstream: q.record.Upstream, UpstreamID: id,
		Model: cmp.Or(made.Model, q.Session.Model), Status: realtime.ResponseInProgress, CreatedAt: q.now,
	}, free: q.up.can.Duplex && !slices.Contains(made.Modalities, "text")}
	r.stage(stageCommit, q.committed)
	r.stage(stageResponse, q.now)
	q.turnEnded(time.Time{})
	q.byID[id], q.newest = r, id
	q.joinTurn(r)
	q.keep(r)
	return r
}

// awaitsSound reports whether the caller has not heard anything yet of a response that will be spoken.
func (r *response) awaitsSound() bool {
	return r.heard.IsZero() && slices.ContainsFunc(r.messages, func(m *message) bool {
		return !m.silent && m.text() != "" && m.meta.Status == thread.StatusCompleted
	})
}

// turnOver reports the turn, if anything was made in it. What is still being made is of the next one.
func (q *responses) turnOver() {
	over, rest := Turn{Charges: q.turn.charges}, turn{}
	for _, r := range q.turn.responses {
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
		q.do(TurnOver{Turn: over})
	}
	q.turn = rest
}

// joinTurn makes a response part of the turn, or the first of the next one if it answers something else.
func (q *responses) joinTurn(r *response) {
	if !r.asked.IsZero() && !r.asked.Equal(q.turn.asked) {
		q.turnOver()
		q.turn.asked = r.asked
	}
	q.turn.responses = append(q.turn.responses, r)
}

// turnEnded records when the turn of the user ended that the next response answers; zero means that none waits.
func (q *responses) turnEnded(at time.Time) {
	q.asked, q.committed = at, time.Time{}
	q.reached = nil
}

// handOn passes what a response was to answer on to the next one, if it made only tool calls: the
// next one speaks the first words.
func (q *responses) handOn(r *response) {
	silent := !slices.ContainsFunc(r.messages, func(m *message) bool { return m.text() != "" })
	if r.tools > 0 && silent && r.record.AnswerMS == nil && !r.asked.IsZero() && q.asked.IsZero() {
		q.asked, q.reached = r.asked, r.latency
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
func (q *responses) answered(r *response, at time.Time) {
	q.stageReached(r, stageFirstAudio, at)
	r.record.AnswerMS = new(r.latency[stageFirstAudio])
	q.keep(r)
}

// stageReached records a stage of an answer.
func (q *responses) stageReached(r *response, stage string, at time.Time) {
	if m := r.stage(stage, at); m != nil && !m.open() {
		q.transcript.write(m) // otherwise it comes with the words
	}
}

// soundSent records that the first audio of an answer was sent to the caller. An upstream that does not report when
// audio begins has begun to speak then.
func (q *responses) soundSent(responseID string, at time.Time) {
	r := q.byID[responseID]
	if r == nil || r.asked.IsZero() {
		return
	}
	if r.record.AnswerMS == nil {
		q.answered(r, at)
	}
	q.stageReached(r, stageFirstPacket, at)
}

// of finds the response, even one that was never announced; without an id the active one.
func (q *responses) of(id string) *response {
	id = cmp.Or(id, q.active)
	if r := q.byID[id]; r != nil || id == "" {
		return r
	}
	return q.newResponse(id, new(realtime.Response))
}

// keep saves the record of a response, unless it costs nothing.
func (q *responses) keep(r *response) {
	if !r.free {
		q.save(persistence.PutResponse{Response: r.record})
	}
}

// over records that a response is no longer being generated. It may still be heard.
func (q *responses) over(r *response) {
	r.done = true
	if q.active == r.id {
		q.active, q.activeBy = q.other(r), time.Time{}
	}
	q.blockedTill = time.Time{}
	if q.up.can.Duplex && r.tools == 0 && len(r.messages) == 0 { // it is not heard: another one is about to say it
		q.saidBy = q.now.Add(saidWait)
	}
}

// other returns the id of another response that is being made, empty if there is none.
func (q *responses) other(than *response) (id string) {
	newest := than
	for _, r := range q.byID {
		if q.up.can.Duplex && r != than && r.created && !r.done &&
			(newest == than || r.record.CreatedAt.After(newest.record.CreatedAt)) {
			newest, id = r, r.id
		}
	}
	return id
}

// close saves how a response ended.
func (q *responses) close(r *response, done *realtime.Response) {
	rec := &r.record
	rec.Status, rec.FinishedAt = done.Status, new(q.now)
	rec.StatusReason = done.StatusDetails.Reason
	if e := done.StatusDetails.Error; e != nil && rec.StatusReason == "" {
		rec.StatusReason = e.Code
	}
	if done.Usage != nil {
		u, less := q.believed(*done.Usage, rec.CreatedAt)
		rec.RawUsage, rec.CostUSD, rec.Estimated = u.Raw, q.Cost(rec.Upstream, rec.Model, u), less
		rec.Usage = thread.Usage{
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.Cached,
			InputAudioTokens: u.InputAudio, OutputAudioTokens: u.OutputAudio,
		}
		q.notify(usageEvent{Type: "bridge.usage", ResponseID: r.id, Usage: u.Raw, CostUSD: rec.CostUSD})
	}
	q.keep(r)
}

// closeAll closes the records of unfinished responses.
func (q *responses) closeAll(why string) {
	q.activeBy = time.Time{}
	for _, id := range slices.Sorted(maps.Keys(q.byID)) {
		if r := q.byID[id]; !r.done {
			r.done = true
			r.record.Status, r.record.StatusReason = realtime.ResponseCancelled, why
			r.record.FinishedAt = new(q.now)
			q.keep(r)
			q.tellDone(r)
		}
	}
}

// tellDone tells the browser that a response is over of which the upstream does not say so: OpenAI's SDK asks for no
// other before.
func (q *responses) tellDone(r *response) {
	if r.created {
		// nobody else has cancelled it, as far as the API knows
		details := map[string]any{"type": r.record.Status, "reason": "client_cancelled"}
		if r.record.Status == realtime.ResponseFailed {
			details = map[string]any{
				"type": r.record.Status, "error": map[string]any{"type": "server_error", "code": r.record.StatusReason},
			}
		}
		q.notify(
			map[string]any{"type": realtime.TypeResponseDone, "event_id": q.ownEventID(), "response": map[string]any{
				"id": r.id, "object": "realtime.response", "status": r.record.Status, "status_details": details,
				"output": []any{},
			}})
	}
}

// message finds or makes the message of an assistant's item; r is its response, nil if that is unknown. A new one is
// then taken to be of the active response.
func (q *responses) message(it *item, r *response) *message {
	m := it.message
	switch {
	case m == nil:
		m = q.transcript.newMessage(it, thread.RoleAssistant, thread.SourceVoice)
		r = cmp.Or(r, q.of(""))
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
func (q *responses) messageOf(ev *event, it *item) *message {
	if it == nil || it.seeded || (it.raw.Type != "" && it.raw.Type != realtime.ItemMessage) {
		return nil
	}
	var r *response
	if ev.ResponseID != "" {
		r = q.of(ev.ResponseID)
	}
	m := q.message(it, r)
	if r = m.response; r != nil && !r.asked.IsZero() && r.record.FirstTokenMS == nil {
		r.record.FirstTokenMS = new(q.now.Sub(r.asked).Milliseconds())
	}
	return m
}
