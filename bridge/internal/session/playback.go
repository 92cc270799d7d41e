package session

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// defaultRate is how fast a voice speaks, in characters per second, until this
// call has heard a whole answer. Measured rates are trusted within the bounds.
const (
	defaultRate  = 15.0
	minRate      = 8.0
	maxRate      = 30.0
	minCalibrate = 2 * time.Second // of audio, for a rate that means something
)

// playback knows what of the answers has been played. The upstream generates
// faster than it speaks, so that most of an answer may be unheard when it is
// interrupted, and it deletes the words then; what was heard is estimated from
// the time.
type playback struct {
	*line
	script  *transcript
	answers *responses

	started bool // the model has made audio in this call
	// told says that the upstream tells when audio begins and ends. One that does not is
	// taken to play an answer from its first words on, at the usual rate.
	told    bool
	guessed bool // playing and since are a guess
	rate    float64
	playing string    // the response that is being played
	since   time.Time // its first audio
}

// audioStarted takes output_audio_buffer.started.
func (p *playback) audioStarted(responseID string) {
	p.started, p.told = true, true
	if p.guessed {
		p.reset()
	}
	if p.playing == responseID && !p.since.IsZero() {
		return
	}
	p.playing, p.since = responseID, p.now
	r := p.answers.of(responseID)
	if r == nil || r.asked.IsZero() || r.record.AnswerMS != nil {
		return
	}
	p.reached(r, stageFirstAudio, p.now)
	r.record.AnswerMS = new(r.latency[stageFirstAudio])
	p.save(SaveResponse{r.record})
	p.do(AwaitSound{Gen: p.up.gen, ResponseID: r.id, Since: r.record.CreatedAt})
}

// reached notes a stage of an answer.
func (p *playback) reached(r *response, stage string, at time.Time) {
	if m := r.stage(stage, at); m != nil && !m.open() {
		p.script.write(m) // else it comes with the words
	}
}

// sent takes the first sound of an answer that went to the caller.
func (p *playback) sent(responseID string, at time.Time) {
	if r := p.answers.byID[responseID]; r != nil {
		p.reached(r, stageFirstPacket, at)
	}
}

// audioStopped takes output_audio_buffer.stopped: all of it was played.
func (p *playback) audioStopped(responseID string) {
	if p.isOther(responseID) {
		return
	}
	if r := p.answers.byID[responseID]; r != nil && p.playing == responseID && !p.since.IsZero() {
		if took := p.now.Sub(p.since); took >= minCalibrate {
			rate := float64(letters(r)) / took.Seconds()
			p.rate = min(max(rate, minRate), maxRate)
		}
	}
	p.reset()
}

func (p *playback) reset() { p.playing, p.since, p.guessed = "", time.Time{}, false }

// firstWords notes the first words of an answer, of an upstream that tells no more.
func (p *playback) firstWords(r *response) {
	if p.told || r == nil || p.playing == r.id {
		return
	}
	p.playing, p.since, p.guessed, p.started = r.id, p.now, true, true
}

// guessedEnd is when an answer has been played whose beginning is a guess; zero while
// it is made, or where there is no guess.
func (p *playback) guessedEnd() time.Time {
	r := p.answers.byID[p.playing]
	if !p.guessed || r == nil || !r.done {
		return time.Time{}
	}
	at := p.since
	for _, m := range r.messages {
		at = at.Add(p.length(m))
	}
	return at
}

func (p *playback) onTime() {
	if p.due(p.guessedEnd()) {
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

// isOther says that an event is not about the response that is being played. One
// may begin before the end of another is told.
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

// audioCleared takes output_audio_buffer.cleared: what was not played yet never will be.
// It is the only sign of an interruption when the answer was generated whole before.
func (p *playback) audioCleared(responseID string) {
	if p.isOther(responseID) {
		return
	}
	p.cutOff(responseID)
	p.reset()
}

// cutOff closes the messages of the response that is being played with what was
// heard of each. It reports whether any of them was not heard to its end.
func (p *playback) cutOff(responseID string) (unheard bool) {
	r := p.answers.byID[responseID]
	if r == nil || p.playing != responseID || p.since.IsZero() {
		return false
	}
	for _, m := range r.messages {
		if m.exact {
			continue
		}
		heard := p.heard(m)
		if heard >= p.length(m) && !m.open() {
			continue // played to its end
		}
		p.interrupt(m, heard)
		unheard = true
	}
	return unheard
}

// truncated takes conversation.item.truncated, which knows exactly how much was
// played.
func (p *playback) truncated(ev *realtime.Event) {
	it := p.script.items[ev.ItemID]
	if it == nil || it.message == nil || it.message.role != persistence.RoleAssistant {
		return
	}
	it.message.exact = true
	p.interrupt(it.message, time.Duration(ev.AudioEndMS)*time.Millisecond)
}

// interrupt closes a message as interrupted after so much audio.
func (p *playback) interrupt(m *message, heard time.Duration) {
	if m.meta.Status == persistence.StatusFailed {
		return
	}
	text := p.cut(m.text(), heard)
	ms := heard.Milliseconds()
	same := m.meta.Status == persistence.StatusInterrupted && m.meta.AudioEndMS != nil && *m.meta.AudioEndMS == ms
	if same {
		return
	}
	if m.meta.Status != persistence.StatusInterrupted && p.phase == live {
		p.record.Interruptions++
	}
	m.meta.Status = persistence.StatusInterrupted
	m.meta.HeardText, m.meta.AudioEndMS = &text, &ms
	p.script.write(m)
}

// reheard cuts what was heard of an interrupted message anew, after words were
// added to it.
func (p *playback) reheard(m *message) {
	if m.open() || m.meta.AudioEndMS == nil {
		return
	}
	text := p.cut(m.text(), time.Duration(*m.meta.AudioEndMS)*time.Millisecond)
	m.meta.HeardText = &text
}

// length is about how long the message's audio is.
func (p *playback) length(m *message) time.Duration {
	return time.Duration(float64(utf8.RuneCountInString(m.text())) / p.rate * float64(time.Second))
}

// heard is about how much of the message's audio has been played.
func (p *playback) heard(m *message) time.Duration {
	if m.response == nil || p.playing != m.response.id || p.since.IsZero() {
		return 0
	}
	left := p.now.Sub(p.since)
	for _, o := range m.response.messages {
		if o == m {
			break
		}
		left -= p.length(o)
	}
	return max(left, 0)
}

// cut returns the beginning of text that is spoken in that time, to a whole word.
func (p *playback) cut(text string, heard time.Duration) string {
	runes := []rune(text)
	n := int(math.Round(heard.Seconds() * p.rate))
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
		// Languages without spaces are cut where they are.
		if strings.ContainsAny(text, " ") {
			return ""
		}
		return head
	}
	return strings.TrimSpace(head[:i])
}
