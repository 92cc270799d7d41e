package session

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// defaultRate is how fast a voice speaks, in characters per second, until this call has heard a
// whole answer. Measured rates are accepted within the bounds.
const (
	defaultRate  = 15.0
	minRate      = 8.0
	maxRate      = 30.0
	minCalibrate = 2 * time.Second // least audio that gives a meaningful rate
	// lostAfter is how long to wait, at least, for the upstream's word that an answer has been played.
	lostAfter = time.Minute
)

// playback tracks how much of the answers has been played. The upstream generates faster than it
// speaks, so most of an answer may be unheard when it is interrupted, and the upstream then deletes
// those words; what was heard is estimated from the time.
type playback struct {
	*line
	transcript *transcript
	answers    *responses

	started bool // the model has produced audio in this call
	// reported means that the upstream reports when audio begins and ends. Otherwise an answer is
	// assumed to play from its first words on, at the usual rate.
	reported  bool
	guessed   bool // playing and startedAt are estimates
	rate      float64
	playing   string    // the response that is being played
	startedAt time.Time // of its first audio
	// newest is when the newest response was made that the caller has heard something of.
	newest time.Time
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
	p.heard(r)
	if r == nil || r.asked.IsZero() || r.record.AnswerMS != nil {
		return
	}
	p.answered(r, p.now)
	p.do(AwaitSound{Gen: p.up.gen, ResponseID: r.id, Since: r.record.CreatedAt})
}

// heard records that the caller hears something of a response; once a call ends, the gate is shut.
func (p *playback) heard(r *response) {
	if r != nil && p.phase < draining && r.record.CreatedAt.After(p.newest) {
		p.newest = r.record.CreatedAt
	}
}

// queued returns the responses that were made after the newest one that the caller has heard something of: as far as
// they are generated, they wait for the end of that one.
func (p *playback) queued() []*response {
	return slices.SortedFunc(func(yield func(*response) bool) {
		for _, r := range p.answers.byID {
			if p.reported && r.record.CreatedAt.After(p.newest) && !yield(r) {
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

// answered records when an answer began to be spoken.
func (p *playback) answered(r *response, at time.Time) {
	p.reached(r, stageFirstAudio, at)
	r.record.AnswerMS = new(r.latency[stageFirstAudio])
	p.save(persistence.PutResponse{Response: r.record})
}

// reached records a stage of an answer.
func (p *playback) reached(r *response, stage string, at time.Time) {
	if m := r.stage(stage, at); m != nil && !m.open() {
		p.transcript.write(m) // otherwise it comes with the words
	}
}

// sent records that the first audio of an answer was sent to the caller. An upstream that does not report when audio
// begins has begun to speak then.
func (p *playback) sent(responseID string, at time.Time) {
	r := p.answers.byID[responseID]
	if r == nil || r.asked.IsZero() {
		return
	}
	if r.record.AnswerMS == nil {
		p.answered(r, at)
	}
	p.reached(r, stageFirstPacket, at)
}

// audioStopped takes output_audio_buffer.stopped: all of it was played.
func (p *playback) audioStopped(responseID string) {
	if p.isOther(responseID) {
		return
	}
	if r := p.answers.byID[p.playing]; r != nil && !p.startedAt.IsZero() {
		if took := p.now.Sub(p.startedAt); took >= minCalibrate {
			rate := float64(letters(r)) / took.Seconds()
			p.rate = min(max(rate, minRate), maxRate)
		}
	}
	p.reset()
}

func (p *playback) reset() { p.playing, p.startedAt, p.guessed = "", time.Time{}, false }

// firstWords takes the first words of an answer as its beginning, if the upstream does not report when audio begins.
func (p *playback) firstWords(r *response) {
	if p.reported || r == nil || p.playing == r.id {
		return
	}
	p.playing, p.startedAt, p.guessed, p.started = r.id, p.now, true, true
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
		length += p.length(m)
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

func letters(r *response) int {
	n := 0
	for _, m := range r.messages {
		n += utf8.RuneCountInString(m.text())
	}
	return n
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
		if played >= p.length(m) && !m.open() {
			continue // played to its end
		}
		p.interrupt(m, played)
		incomplete = true
	}
	return incomplete
}

// truncated takes conversation.item.truncated, which says exactly how much was played.
func (p *playback) truncated(ev *realtime.Event) {
	it := p.transcript.items[ev.ItemID]
	if it == nil || it.message == nil || it.message.role != thread.RoleAssistant {
		return
	}
	it.message.exact = true
	p.interrupt(it.message, time.Duration(ev.AudioEndMS)*time.Millisecond)
}

// interrupt closes a message as interrupted after the audio that was played.
func (p *playback) interrupt(m *message, played time.Duration) {
	if m.meta.Status == thread.StatusFailed {
		return
	}
	text := p.cut(m.text(), played)
	ms := played.Milliseconds()
	same := m.meta.Status == thread.StatusInterrupted && m.meta.AudioEndMS != nil && *m.meta.AudioEndMS == ms
	if same {
		return
	}
	if m.meta.Status != thread.StatusInterrupted && p.phase == live {
		p.record.Interruptions++
	}
	m.meta.Status = thread.StatusInterrupted
	if !m.silent { // all of a text was shown
		m.meta.HeardText, m.meta.AudioEndMS = &text, &ms
	}
	p.transcript.write(m)
}

// updateHeardText cuts the heard text of an interrupted message again, after words were added to it.
func (p *playback) updateHeardText(m *message) {
	if m.open() || m.meta.AudioEndMS == nil {
		return
	}
	text := p.cut(m.text(), time.Duration(*m.meta.AudioEndMS)*time.Millisecond)
	m.meta.HeardText = &text
}

// length estimates the length of the message's audio.
func (p *playback) length(m *message) time.Duration {
	return time.Duration(float64(utf8.RuneCountInString(m.text())) / p.rate * float64(time.Second))
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
		left -= p.length(o)
	}
	return max(left, 0)
}

// cut returns the beginning of text that is spoken in the time played, in whole words.
func (p *playback) cut(text string, played time.Duration) string {
	runes := []rune(text)
	n := int(math.Round(played.Seconds() * p.rate))
	if n >= len(runes) {
		return text
	}
	if n <= 0 {
		return ""
	}
	head := string(runes[:n])
	if runes[n] == ' ' || runes[n] == '\n' {
		return strings.TrimSpace(head)
	}
	i := strings.LastIndexAny(head, " \n")
	if i < 0 {
		// Languages without spaces are cut anywhere.
		if strings.ContainsAny(text, " ") {
			return ""
		}
		return head
	}
	return strings.TrimSpace(head[:i])
}
