package session

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// lostAfter is how long to wait, at least, for the upstream's word that an answer has been played.
const lostAfter = time.Minute

// playback tracks how much of the answers has been played. The upstream generates faster than it
// speaks, so most of an answer may be unheard when it is interrupted, and the upstream then deletes
// those words; what was heard is estimated from the time.
type playback struct {
	*line
	transcript *transcript
	answers    *responses
	recording  *recording

	started bool // the model has produced audio in this call
	// reported means that the upstream reports when audio begins and ends. Otherwise an answer is
	// assumed to play from its first words on, at the usual rate.
	reported  bool
	guessed   bool      // playing and startedAt are estimates
	playing   string    // the response that is being played
	startedAt time.Time // of its first audio
	stoppedAt time.Time // when one was last heard that is not any more
}

// lastHeard returns when an answer was last heard: now, if one is; zero if none was.
func (p *playback) lastHeard() time.Time {
	if p.playing != "" {
		return p.now
	}
	return p.stoppedAt
}

// audioStarted takes output_audio_buffer.started.
func (p *playback) audioStarted(responseID string) {
	p.started, p.reported = true, true
	if p.guessed {
		p.reset()
	}
	r := p.answers.of(responseID)
	if r != nil {
		responseID = r.id // the event need not name the only one that it can mean
	}
	if p.playing == responseID && !p.startedAt.IsZero() {
		return
	}
	p.playing, p.startedAt = responseID, p.now
	if r == nil {
		return
	}
	r.heard = p.now
	if t := p.told(0); p.phase < draining && r.record.CreatedAt.After(t.heard) { // once a call ends, the gate is shut
		t.heard = r.record.CreatedAt
	}
	if r.asked.IsZero() || r.record.AnswerMS != nil {
		return
	}
	p.answers.answered(r, p.now)
	p.do(AwaitSound{Gen: p.up.gen, ResponseID: r.id, Since: r.record.CreatedAt})
}

// queued returns the responses that were made after the newest one that the caller has heard something of: as far as
// they are generated, they wait for the end of that one.
func (p *playback) queued() []*response {
	return slices.SortedFunc(func(yield func(*response) bool) {
		for _, r := range p.answers.byID {
			if p.reported && r.record.CreatedAt.After(p.told(0).heard) && !yield(r) {
				return
			}
		}
	}, func(a, b *response) int { return a.record.CreatedAt.Compare(b.record.CreatedAt) })
}

// cutOffQueued closes the spoken messages of a response of which nothing was played. It reports whether there were any
// that nobody has stopped before.
func (p *playback) cutOffQueued(r *response) (incomplete bool) {
	for _, m := range r.messages {
		if stopped := !m.open() && m.meta.Status != thread.StatusCompleted; !stopped && !m.silent && m.text() != "" {
			p.interrupt(m, 0)
			incomplete = true
		}
	}
	return incomplete
}

// audioStopped takes output_audio_buffer.stopped: all of it was played.
func (p *playback) audioStopped(responseID string) {
	if p.isOther(responseID) {
		return
	}
	if r := p.answers.byID[p.playing]; r != nil && !p.startedAt.IsZero() {
		p.measure(r, p.now.Sub(p.startedAt))
		p.place(r)
	}
	p.reset()
}

func (p *playback) reset() {
	p.stoppedAt = p.lastHeard()
	p.playing, p.startedAt = "", time.Time{}
	p.guessed = false
}

// firstWords takes the first words of an answer as its beginning, if the upstream does not report when audio begins.
func (p *playback) firstWords(r *response) {
	if p.reported || r == nil || !r.heard.IsZero() {
		return
	}
	p.playing, p.startedAt = r.id, p.now
	p.guessed, p.started = true, true
	r.heard = p.now
	if !r.asked.IsZero() {
		p.do(AwaitSound{Gen: p.up.gen, ResponseID: r.id, Since: r.record.CreatedAt})
	}
}

// end returns when the answer that is being played is over although the upstream has not said so: at its estimated end
// if its beginning is an estimate, too; otherwise long after that, because the event was lost. It is zero while the
// answer is being made.
func (p *playback) end() time.Time {
	r := p.answers.byID[p.playing]
	if r == nil || !r.done {
		return time.Time{}
	}
	length := time.Duration(0)
	for _, m := range r.messages {
		length += p.transcript.lasts(m)
	}
	if !p.guessed {
		length = 4*length + lostAfter
	}
	return p.startedAt.Add(length)
}

func (p *playback) onTime() {
	if p.due(p.end()) {
		p.reset()
	}
}

// userSpeaks takes the beginning of the user's speech, which interrupts an answer.
func (p *playback) userSpeaks() {
	if p.guessed {
		p.cutOff(p.playing)
		p.reset()
	}
}

// isOther reports whether an event is not about the response that is being played. A response may
// begin before the end of another is reported.
func (p *playback) isOther(responseID string) bool {
	return responseID != "" && responseID != p.playing
}

// measure takes how long all of an answer took.
func (p *playback) measure(r *response, took time.Duration) {
	all := 0.0
	for _, m := range r.messages {
		all += letters(m.spoken())
	}
	p.transcript.pace.measure(all, took)
	for _, m := range r.messages {
		if m.sound == 0 && all > 0 {
			m.sound = time.Duration(float64(took) * letters(m.spoken()) / all)
		}
	}
}

// audioCleared takes output_audio_buffer.cleared: what was not played yet never will be. It is the
// only sign of an interruption if the answer had been completely generated.
func (p *playback) audioCleared(responseID string) {
	if p.isOther(responseID) {
		return
	}
	p.cutOff(p.playing)
	p.reset()
}

// clear stops the audio that is still playing.
func (p *playback) clear() {
	if p.up.can.OutputBuffer {
		p.up.send(realtime.OutputAudioBufferClear(p.up.eventID(sentEvent{})))
	} else {
		p.audioCleared("") // nobody will say so
	}
}

// cutOff closes the messages of the response that is being played with what was played of each. It
// reports whether any was not played to its end.
func (p *playback) cutOff(responseID string) (incomplete bool) {
	r := p.answers.byID[responseID]
	if r == nil || p.playing != responseID || p.startedAt.IsZero() {
		return false
	}
	for _, m := range r.messages {
		if m.exact {
			continue
		}
		played := p.played(m)
		if !m.open() && p.transcript.ended(m, played) {
			continue // played to its end
		}
		p.interrupt(m, played)
		if !m.silent {
			p.up.truncate(m.voice().id, played)
		}
		incomplete = true
	}
	return incomplete
}

// truncated takes conversation.item.truncated, which says exactly how much was played. It reports whether that is new:
// an answer is not cut again where it is cut already, or later.
func (p *playback) truncated(ev *event, it *item) (isNew bool) {
	if it == nil || it.message == nil || it.message.role != thread.RoleAssistant {
		return true
	}
	m := it.message
	if it != m.voice() {
		return true // it has gone on since
	}
	if end := m.meta.AudioEndMS; m.exact && end != nil && *end <= m.heardBefore.Milliseconds()+ev.AudioEndMS {
		return false
	}
	m.exact, m.heard = true, nil
	if ev.Transcript != "" {
		m.heard = new(m.with(ev.Transcript))
	}
	played := time.Duration(ev.AudioEndMS) * time.Millisecond
	if m.meta.Status == thread.StatusCompleted && m.sound > 0 && p.transcript.ended(m, played) {
		return true // nothing was cut off
	}
	p.interrupt(m, played)
	return true
}

// interrupt closes a message as interrupted after the audio that was played.
func (p *playback) interrupt(m *message, played time.Duration) {
	if m.meta.Status == thread.StatusFailed {
		return
	}
	ms := (m.heardBefore + played).Milliseconds()
	same := m.meta.Status == thread.StatusInterrupted && m.meta.AudioEndMS != nil && *m.meta.AudioEndMS == ms
	if same {
		return
	}
	if m.meta.Status != thread.StatusInterrupted && p.phase == live {
		p.record.Interruptions++
		p.saveCall()
	}
	m.meta.Status = thread.StatusInterrupted
	if !m.silent { // all of a text was shown
		m.meta.AudioEndMS = &ms // the thread also gets the text
		if m.response != nil {
			start := p.start(m)
			m.sounded(p.recording.span(start, start.Add(played)))
		}
	}
	m.changed = true
}

// played estimates how much of the message's audio has been played.
func (p *playback) played(m *message) time.Duration {
	if m.response == nil || p.playing != m.response.id || p.startedAt.IsZero() {
		return 0
	}
	left := p.now.Sub(p.startedAt)
	for _, o := range m.response.messages {
		if o == m {
			break
		}
		left -= p.transcript.lasts(o)
	}
	return max(left, 0)
}

// words takes words of an answer: a piece of a content part, or all of it. What is spoken in an item is one part, since
// some upstreams count its pieces.
func (p *playback) words(m *message, ev *event) {
	if strings.Contains(ev.Type, "transcript") {
		ev.ContentIndex = 0
	}
	switch ev.Type {
	case realtime.TypeOutputTextDelta, realtime.TypeTextDeltaBeta:
		p.moreText(m, ev, false)
	case realtime.TypeAudioTranscriptDelta, realtime.TypeAudioTranscriptDeltaOld:
		p.moreText(m, ev, true)
	case realtime.TypeContentPartDone:
		var part realtime.Content
		_ = json.Unmarshal(ev.Part, &part) // what cannot be read has no words
		if p.wholeText(m, ev.ContentIndex, part.Text, false); part.Transcript != "" {
			p.wholeText(m, 0, part.Transcript, true)
		}
	case realtime.TypeOutputTextDone, realtime.TypeTextDoneBeta:
		p.wholeText(m, ev.ContentIndex, ev.Text, false)
	default:
		p.wholeText(m, ev.ContentIndex, ev.Transcript, true)
	}
}

// moreText takes a piece of a content part; spoken means that it is the transcript of audio.
func (p *playback) moreText(m *message, ev *event, spoken bool) {
	if ev.Delta == "" || p.transcript.amend(m, ev) {
		return
	}
	m.comes(spoken)
	p.transcript.grow(m, ev)
	if spoken {
		p.firstWords(m.response)
	}
}

// wholeText takes the complete text of a content part; spoken is as for moreText.
func (p *playback) wholeText(m *message, index int, text string, spoken bool) {
	if text == "" {
		return
	}
	m.comes(spoken)
	if m.whole(index, text) {
		m.changed = true
	} else if m.open() {
		p.transcript.flush(m) // saved in pieces, and whole once it is closed
	}
	if spoken {
		p.firstWords(m.response)
	}
}

// finished takes the whole text of a message. completed means that it was not cut short.
func (p *playback) finished(m *message, text string, completed bool) {
	if all, _ := merged(m.spoken(), m.spoken(), text); all != m.spoken() {
		m.setWhole(all)
		m.changed = m.changed || !m.open()
	}
	if completed {
		m.end(thread.StatusCompleted)
	}
}

// cuts are the words for what cuts an answer short, as in the metadata of typed ones, by the upstream's.
var cuts = map[string]json.RawMessage{
	"max_output_tokens": json.RawMessage(`"length"`), "content_filter": json.RawMessage(`"filter"`),
}

// closeMessages ends what a response has left open.
func (p *playback) closeMessages(r *response, done *realtime.Response) {
	cut := cuts[done.StatusDetails.Reason]
	for i, m := range r.messages {
		changed := false
		if i == 0 && done.Usage != nil && len(done.Usage.Raw) > 0 {
			m.meta.Usage, changed = done.Usage.Raw, true
		}
		if i == len(r.messages)-1 && cut != nil {
			m.note(thread.MetadataFinish, cut)
		}
		switch {
		case !m.open() && (changed || !m.flushAt.IsZero()):
			m.changed = true
		case !m.open():
		case done.Status == realtime.ResponseCancelled:
			p.interrupt(m, p.played(m))
		case done.Status == realtime.ResponseFailed:
			m.end(thread.StatusFailed)
		default:
			m.end(thread.StatusCompleted)
		}
	}
}

// stopAll closes the answers that are no longer played.
func (p *playback) stopAll() {
	p.cutOff(p.playing)
	for _, r := range p.queued() {
		p.cutOffQueued(r)
	}
	p.reset()
}

// closeOpen closes what is open. goesOn means that the call does not end: a text that the upstream
// has not acknowledged is kept for the next session.
func (p *playback) closeOpen(goesOn bool) {
	for _, m := range p.transcript.messages {
		switch {
		case !m.placed && m.open() && m.text() == "":
			continue // announced and never begun
		case !m.placed && m.queued != "" && !goesOn:
			continue // left to its queue
		case !m.placed:
			m.changed = true
		case !m.open():
			if !m.flushAt.IsZero() {
				m.changed = true
			}
			continue
		case m.role == thread.RoleAssistant:
			p.interrupt(m, p.played(m))
		}
		m.end(thread.StatusFailed)
	}
}

// stopUnheard stops the answers that are being made and played while the call waits for its browser. They are made
// again when it is back.
func (p *playback) stopUnheard(making, playing string) {
	if making != "" {
		p.up.cancel(making)
	}
	if playing != "" {
		p.clear()
	}
	p.closeAnswers(making, playing)
}

// closeAnswers closes the answers that are being made and played, and those between them that wait to be played.
func (p *playback) closeAnswers(making, playing string) {
	p.closeAnswer(making, true)
	if playing != making {
		p.closeAnswer(playing, false)
	}
	for _, r := range p.queued() {
		if p.cutOffQueued(r) && r.tools == 0 {
			p.answers.again()
		}
	}
	p.reset()
}

// closeAnswer closes an answer that is being made or, if making is false, only played. It is asked for again unless it
// was complete or called tools.
func (p *playback) closeAnswer(id string, making bool) {
	r := p.answers.byID[id]
	if r == nil {
		return
	}
	incomplete := p.cutOff(id)
	if !making && !incomplete || r.tools > 0 {
		return // the outputs of its tools are answered
	}
	p.answers.again()
}

// place gives the messages of an answer that was played to its end their places in the recording.
func (p *playback) place(r *response) {
	for i, m := range r.messages {
		if m.silent || m.meta.Audio != nil && m.resumed == 0 {
			continue
		}
		end := p.now
		if i < len(r.messages)-1 {
			end = p.start(m).Add(p.transcript.lasts(m))
		}
		if m.sounded(p.recording.span(p.start(m), end)); m.meta.Audio != nil && !m.open() {
			m.changed = true
		}
	}
}

// start returns when a message of an answer began to be heard.
func (p *playback) start(m *message) time.Time {
	at := m.response.heard
	if at.IsZero() {
		return at
	}
	for _, o := range m.response.messages {
		if o == m {
			break
		}
		at = at.Add(p.transcript.lasts(o))
	}
	return at
}
