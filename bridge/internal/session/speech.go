package session

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// speech is what the user says, and when.
type speech struct {
	*line
	transcript *transcript
	answers    *responses
	playback   *playback
	settings   *settings
	limiter    *limiter
	recording  *recording
	judge      *interruption
	// heldTill is set while the user of push to talk holds the button, and until the upstream has what was said.
	heldTill time.Time
	// heldFrom is when that last began.
	heldFrom time.Time
	// piecesTill is until when more pieces of the last transcription are expected.
	piecesTill time.Time
}

// talking reports whether the user of push to talk is speaking. A client clears the upstream's buffer when that begins
// and commits it at the end; the upstream says nothing.
func (p *speech) talking() bool { return p.settings.noReply && p.now.Before(p.heldTill) }

// going reports whether the caller is speaking, hands-free or in push to talk, or has words that are not transcribed
// yet: only the present upstream session has heard them.
func (p *speech) going() bool {
	return p.talking() || !p.answers.speechTill.IsZero() || p.transcript.awaitsTranscription()
}

// lost reports whether the last thing that the caller said is not known, as only the present upstream session has heard
// it.
func (p *speech) lost() bool {
	last := p.transcript.memory.question()
	return p.talking() || !p.answers.speechTill.IsZero() || slices.ContainsFunc(p.transcript.growing,
		func(m *message) bool {
			return m.id == last && !m.transcriptionBy.IsZero()
		})
}

// event takes an upstream event about the user's side.
func (p *speech) event(ev *event, it *item) {
	q := p.answers
	switch ev.Type {
	case realtime.TypeInputSpeechStarted:
		q.speechTill = p.now.Add(speechTimeout)
		q.asksAnew()
		if it != nil {
			it.from, it.fromMS = p.began(ev), ev.AudioStartMS
			it.reported = p.now
		}
		p.judge.begins(it)
		p.playback.userSpeaks()
	case realtime.TypeInputSpeechStopped:
		q.asked, q.reached = p.stopped(ev), nil
		p.quiet()
		if it != nil {
			it.until = q.asked
			p.judge.ends(ev, it)
			p.correct(it, ev)
		}
	case realtime.TypeInputCommitted:
		p.committed(it)
	case realtime.TypeInputCleared:
		q.speechTill = p.now
	case realtime.TypeTranscriptionDelta:
		if m := p.pieceOf(it); m != nil && !p.transcript.amend(m, ev) {
			p.awaitTranscription(m)
			p.transcript.grow(m, ev)
		}
	case realtime.TypeTranscriptionCompleted:
		if m := p.pieceOf(it); m != nil {
			p.transcribed(m, it, ev.Transcript)
			p.charge(it, ev)
			p.judge.ends(ev, it)
			if q.speechTill.Equal(it.reported.Add(speechTimeout)) { // nobody said that it had stopped
				p.quiet()
			}
		}
	case realtime.TypeTranscriptionFailed:
		if m := p.utterance(it); m != nil {
			if ev.Error != nil {
				p.log(slog.LevelInfo, "transcription failed", "code", ev.Error.Code, "error", ev.Error.Message)
			}
			m.end(thread.StatusFailed)
		}
	}
}

// quiet ends the waiting for the user a moment later: the utterance may not be committed.
func (p *speech) quiet() { p.answers.speechTill = p.now.Add(autoResponseWait) }

// typeTranscriptionUpdated is xAI's: all that was understood so far.
const typeTranscriptionUpdated = "conversation.item.input_audio_transcription.updated"

// soFar makes a delta of an event with all that was understood so far, as some upstreams send it, also as completed
// with the status in_progress. It returns false if there is nothing to pass on.
func (p *speech) soFar(ev *event) bool {
	isSoFar := ev.Type == typeTranscriptionUpdated || ev.Type == realtime.TypeTranscriptionCompleted &&
		string(realtime.Member(ev.Raw, "status")) == `"in_progress"`
	if !isSoFar || ev.Malformed != nil {
		return true
	}
	m := p.utterance(p.transcript.itemOf(ev))
	if m == nil || !m.open() || m.role != thread.RoleUser {
		return false
	}
	p.awaitTranscription(m)
	delta, more := strings.CutPrefix(ev.Transcript, m.part(ev.ContentIndex).String())
	if !more { // it was understood differently
		m.setText(ev.ContentIndex, ev.Transcript)
		m.changed = true
	}
	if !more || delta == "" {
		return false
	}
	made, err := readEvent(encode(map[string]any{
		"type": realtime.TypeTranscriptionDelta, "event_id": cmp.Or(ev.EventID, p.ownEventID()), "item_id": ev.ItemID,
		"content_index": ev.ContentIndex, "delta": delta,
	}))
	*ev = made
	return err == nil
}

// committed takes the end of an utterance.
func (p *speech) committed(it *item) {
	q := p.answers
	if q.asked.IsZero() || q.reached != nil { // nothing was recorded, or only for the turn before
		q.turnEnded(p.now)
	}
	q.committed = p.now
	p.heldTill = time.Time{}
	q.speechTill = p.now // over, unless the user speaks again
	if p.settings.asks && it != nil && !it.unheeded {
		q.need(need{id: it.id, acked: true})
	} else if !p.settings.asks && !p.settings.noReply {
		q.replyTill = p.now.Add(autoResponseWait)
	}
	if m := p.utterance(it); m != nil {
		p.awaitTranscription(m)
		p.place(it)
	}
}

// item takes an item of the user: spoken, or typed through this call.
func (p *speech) item(it *item, raw *realtime.Item) {
	if m := it.message; m != nil {
		if !m.placed {
			m.changed = true // typed: the upstream has it now, and so its place is known
		}
		return
	}
	for _, c := range raw.Content {
		if c.Type == realtime.ContentInputAudio {
			p.newUtterance(it)
			if c.Transcript != "" && raw.Status != realtime.ResponseInProgress {
				p.transcribed(it.message, it, c.Transcript)
			}
			return
		}
	}
	m := p.transcript.newMessage(it, thread.RoleUser, thread.SourceText)
	m.setText(0, raw.Text())
	m.meta.Status = thread.StatusCompleted
	m.changed = true
}

// newUtterance makes the message of an utterance. Its transcription comes later.
func (p *speech) newUtterance(it *item) {
	if it.message != nil {
		return
	}
	m := p.transcript.newMessage(it, thread.RoleUser, thread.SourceVoice)
	p.awaitTranscription(m)
	p.countTurn()
	p.answers.rounds = 0
	m.changed = true
}

// utterance finds the message of an utterance's item, nil if it is none of this call. For one that was never announced
// it makes one.
func (p *speech) utterance(it *item) *message {
	if it == nil || it.seeded {
		return nil
	}
	p.newUtterance(it)
	return it.message
}

// pieceOf finds the message of an item whose transcription comes. If nothing else has told of the item, it is a piece
// of what was transcribed just before, or of the utterance that is waiting for its words.
func (p *speech) pieceOf(it *item) *message {
	if it != nil && it.message == nil && !it.announced && it.from.IsZero() {
		last := p.transcript.items[it.prev]
		switch {
		case it.linked, last == nil:
		case last.message == nil && !last.from.IsZero(),
			last.message.isSpoken() && (last.message.open() || p.now.Before(p.piecesTill)):
			it.message = p.utterance(last)
		}
	}
	p.piecesTill = p.now.Add(pieceWait)
	return p.utterance(it)
}

// isSpoken reports whether this is a message of the user's voice.
func (m *message) isSpoken() bool {
	return m != nil && m.role == thread.RoleUser && m.meta.Source == thread.SourceVoice
}

// awaitTranscription starts waiting for the transcription of an utterance, anew with each part of it: parts may come
// while the user is still speaking.
func (p *speech) awaitTranscription(m *message) {
	if m.open() && m.role == thread.RoleUser {
		m.transcriptionBy = p.now.Add(transcriptionTimeout)
	}
}

// transcribed completes an utterance, even one whose transcription was given up. More words may follow what an upstream
// has called complete.
func (p *speech) transcribed(m *message, it *item, text string) {
	text = strings.TrimSpace(text)
	if it != m.item {
		text, _ = merged(m.text(), m.text()[m.part(0).whole:], text)
	}
	complete := m.meta.Status == thread.StatusCompleted && (text == m.text() || !strings.HasPrefix(text, m.text()))
	if !m.isSpoken() || complete {
		return
	}
	m.setWhole(text)
	m.transcriptionBy = time.Time{}
	m.meta.Status = thread.StatusCompleted
	m.changed = true
	if m.text() != "" {
		p.limiter.heard()
	}
}

// charge records the cost of a transcription, once. It is billed apart from responses.
func (p *speech) charge(it *item, ev *event) {
	told, err := realtime.DecodeUsage(ev.Usage)
	if ev.Usage == nil || err != nil || it.billed {
		return
	}
	it.billed = true
	usage, less := p.believed(told, p.up.made)
	rec := records.Response{
		ID: p.newID(), Kind: records.KindTranscription, CallID: p.CallID, MessageID: it.message.id,
		Upstream: p.record.Upstream, UpstreamID: ev.ItemID, Model: p.Session.TranscriptionModel,
		Status: realtime.ResponseCompleted, RawUsage: usage.Raw, CreatedAt: p.now, FinishedAt: new(p.now),
		Usage: thread.Usage{
			InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, InputAudioTokens: usage.InputAudio,
		},
		Estimated: less,
	}
	if p.TranscriptionCost != nil {
		rec.CostUSD = p.TranscriptionCost(rec.Upstream, rec.Model, usage)
	}
	p.save(persistence.PutResponse{Response: rec})
	p.answers.turn.charges = append(p.answers.turn.charges, rec)
	p.limiter.charge(rec.CostUSD)
}

// Bounds of when what the upstream calls the beginning of speech was.
const (
	// leastSpoken is how long the caller has spoken, at least, when the upstream says so.
	leastSpoken = 300 * time.Millisecond
	// mostSpoken is how long, at most: what is held while a session is replaced comes that late.
	mostSpoken = 6 * time.Second
	// mostHeld is how late sound may be sent, at most: more does not wait for an upstream.
	mostHeld = 10 * time.Second
)

// began returns when the caller began to speak, as the upstream's event has just said: its time counts the audio that
// the session has had, which is not the same as the time since it began.
func (p *speech) began(ev *event) time.Time {
	at := p.up.began.Add(time.Duration(ev.AudioStartMS) * time.Millisecond)
	if ev.said != nil {
		at = ev.said.At
	}
	if latest := p.now.Add(-leastSpoken); at.After(latest) {
		return latest
	}
	if earliest := p.now.Add(-mostSpoken); at.Before(earliest) {
		return p.now.Add(-2 * leastSpoken)
	}
	return at
}

// correct moves the beginning of an utterance whose end the upstream's event has just said, where nobody knows when its
// sound came: an upstream counts only what it has got, so a client that sends nothing at times makes its count fall
// behind. The utterance took at least as long as it counted, and had begun when the upstream said so.
func (p *speech) correct(it *item, ev *event) {
	if ev.said != nil || it.from.IsZero() || ev.AudioEndMS <= it.fromMS {
		return
	}
	from := it.until.Add(-time.Duration(ev.AudioEndMS-it.fromMS) * time.Millisecond)
	if reported := it.reported.Add(-leastSpoken); reported.Before(from) {
		from = reported
	}
	if from.Sub(it.from) > leastSpoken { // less may be due to the way of the event
		it.from = from
	}
}

// stopped returns when the caller has stopped speaking, as the upstream's event has just said: before the event by as
// long as the sound was on its way.
func (p *speech) stopped(ev *event) time.Time {
	if ev.said == nil {
		return p.now
	}
	return p.now.Add(-min(ev.said.Late, mostHeld))
}

// place gives an utterance its place in the recording.
func (p *speech) place(it *item) {
	if it.until.IsZero() {
		it.until = p.now
	}
	if it.from.IsZero() { // push to talk
		it.from = p.heldFrom
	}
	if m := it.message; m != nil {
		m.meta.Audio = p.recording.span(it.from, it.until)
	}
}
