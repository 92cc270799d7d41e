package session

import (
	"maps"
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// responseTimeout is how long a response is waited for of which nothing more comes.
const responseTimeout = 60 * time.Second

// began takes response.created.
func (q *responses) began(id string) {
	if q.byID[id] != nil {
		return
	}
	q.newResponse(id).created = true
	q.active, q.activeBy = id, q.now.Add(responseTimeout)
	q.replyTill, q.blockedTill = time.Time{}, time.Time{}
	// Needs that the upstream has are answered by this response, also those that
	// went out before our own request for it. A client's request is for a
	// response that comes after it: this one.
	q.last, q.create = q.create, nil
	if q.last != nil && q.last.unwanted {
		q.up.cancel(id)
	}
	q.needs = slices.DeleteFunc(q.needs, func(n need) bool {
		return n.acked || n.id == "" || q.last.has(n)
	})
}

// keepAlive notes that something of the active response has come.
func (q *responses) keepAlive() {
	if q.active != "" {
		q.activeBy = q.now.Add(responseTimeout)
	}
}

// unannounced takes a response that was over before it was announced, by an
// interruption, as the reply to our request. Should the upstream refuse that after
// all, nothing of it is answered.
func (q *responses) unannounced() {
	if q.create == nil {
		return
	}
	q.last, q.create = q.create, nil
	q.last.assumed = true
	q.needs = slices.DeleteFunc(q.needs, q.last.has)
}

func (q *responses) newResponse(id string) *response {
	r := &response{id: id, asked: q.asked, record: persistence.ResponseRecord{
		ID: q.NewID(), CallID: q.CallID, UpstreamID: id, Model: q.Session.Model,
		Status: realtime.ResponseInProgress, CreatedAt: q.now,
	}}
	r.stage(stageCommit, q.committed)
	r.stage(stageResponse, q.now)
	q.asked, q.committed = time.Time{}, time.Time{}
	q.byID[id] = r
	q.save(SaveResponse{r.record})
	return r
}

// The stages of an answer, as they are kept in the latency of its first message: in
// milliseconds since the user's turn ended, spoken or typed.
const (
	stageCommit      = "commit"       // the upstream has taken the spoken turn
	stageResponse    = "response"     // it has begun to answer
	stageFirstAudio  = "first_audio"  // it has begun to speak
	stageFirstPacket = "first_packet" // the caller was sent the first of it
)

// stage notes when a stage was reached first, and returns the message that keeps it,
// nil when there is none yet or nothing was noted.
func (r *response) stage(name string, at time.Time) *message {
	if _, known := r.latency[name]; known || r.asked.IsZero() || at.IsZero() {
		return nil
	}
	latency := map[string]int64{name: max(at.Sub(r.asked).Milliseconds(), 0)}
	maps.Copy(latency, r.latency) // the one before may be on its way to the database
	r.latency = latency
	if len(r.messages) == 0 {
		return nil
	}
	r.messages[0].meta.LatencyMS = latency
	return r.messages[0]
}

// of finds the response, one that was never announced too; without an id the active
// one.
func (q *responses) of(id string) *response {
	if id == "" {
		id = q.active
	}
	if r := q.byID[id]; r != nil || id == "" {
		return r
	}
	return q.newResponse(id)
}

// over ends a response: everything is generated, though not heard.
func (q *responses) over(r *response) {
	r.done = true
	if q.active == r.id {
		q.active, q.activeBy = "", time.Time{}
	}
	q.blockedTill = time.Time{}
}

// close writes how a response ended.
func (q *responses) close(r *response, done *realtime.Response) {
	rec := &r.record
	rec.Status, rec.FinishedAt = done.Status, new(q.now)
	rec.StatusReason = done.StatusDetails.Reason
	if e := done.StatusDetails.Error; e != nil && rec.StatusReason == "" {
		rec.StatusReason = e.Code
	}
	if u := done.Usage; u != nil {
		rec.RawUsage, rec.CostUSD = u.Raw, q.Cost(*u)
		rec.Usage = persistence.Usage{
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.Cached,
			InputAudioTokens: u.InputAudio, OutputAudioTokens: u.OutputAudio,
		}
		q.notify(usageEvent{Type: "bridge.usage", ResponseID: r.id, Usage: u.Raw, CostUSD: rec.CostUSD})
	}
	q.save(SaveResponse{*rec})
}

// closeAll ends the records of the responses that are not done.
func (q *responses) closeAll(why string) {
	for _, id := range slices.Sorted(maps.Keys(q.byID)) {
		if r := q.byID[id]; !r.done {
			r.done = true
			r.record.Status, r.record.StatusReason = realtime.ResponseCancelled, why
			r.record.FinishedAt = new(q.now)
			q.save(SaveResponse{r.record})
		}
	}
}

// message finds or makes the message of an assistant's item.
func (q *responses) message(it *item, responseID string) *message {
	if it.message != nil {
		return it.message
	}
	m := q.script.newMessage(it, persistence.RoleAssistant, persistence.SourceVoice)
	if r := q.of(responseID); r != nil {
		m.response = r
		if len(r.messages) == 0 {
			m.meta.LatencyMS = r.latency
		}
		r.messages = append(r.messages, m)
		if r.record.MessageID == "" {
			r.record.MessageID = m.id
		}
	}
	return m
}

// messageOf finds the message of an event that belongs to an assistant's item, nil
// when that is no message.
func (q *responses) messageOf(ev *realtime.Event) *message {
	if ev.ItemID == "" {
		return nil
	}
	it := q.script.item(ev.ItemID)
	if it.seeded || (it.raw.Type != "" && it.raw.Type != realtime.ItemMessage) {
		return nil
	}
	return q.message(it, ev.ResponseID)
}
