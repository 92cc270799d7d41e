package session

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"voicebridge/assistant"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// interruption judges whether speech that has stopped an answer was an interruption, where the upstream stops for any
// sound. Meanwhile nobody answers; what was none is not answered, and the answer goes on.
type interruption struct {
	*line
	transcript *transcript
	answers    *responses
	settings   *settings
	playback   *playback

	stopped *response // the answer, nil if nothing is to be judged
	said    []*item   // the utterances since
	// spoken is how long they are, as far as they are over; speaking means that one is not. by is how long to wait for
	// words once they are.
	spoken   time.Duration
	speaking bool
	by       time.Time
}

// begins takes the beginning of an utterance.
func (j *interruption) begins(it *item) {
	r := j.answers.byID[j.playback.playing]
	if r == nil {
		r = j.answers.byID[j.answers.active]
	}
	switch {
	case !j.settings.asks || it == nil:
		return
	case j.stopped != nil:
	case r == nil || r.tools > 0: // its tools are answered in any case
		return
	default:
		j.stopped, j.said, j.spoken = r, nil, 0
	}
	j.said, j.speaking = append(j.said, it), true
	j.answers.judging = true
}

// ends takes the end of an utterance.
func (j *interruption) ends(ev *event, it *item) {
	if j.stopped == nil || !j.speaking || it != j.said[len(j.said)-1] {
		return
	}
	length := j.now.Sub(it.from)
	if ev.AudioEndMS > it.fromMS {
		length = time.Duration(ev.AudioEndMS-it.fromMS) * time.Millisecond
	}
	j.speaking = false
	j.spoken += length - j.settings.padding
	j.by = j.now.Add(transcriptionTimeout)
	if wait := j.Session.rules().ResumeSeconds; wait > 0 {
		j.by = j.now.Add(assistant.Seconds(wait))
	}
}

// onTime decides as soon as that is possible.
func (j *interruption) onTime() {
	if j.stopped == nil || !j.answers.judging {
		j.forget()
		return
	}
	words, complete, failed := 0, true, false
	for _, it := range j.said {
		if it.message != nil {
			words += countWords(it.message.text())
			failed = failed || it.message.meta.Status == thread.StatusFailed
		}
		complete = complete && it.message != nil && it.message.meta.Status == thread.StatusCompleted
	}
	rules := j.Session.rules()
	switch enough := words >= max(1, rules.MinWords); {
	case j.speaking && (rules.MinSeconds > 0 || !enough):
	case !j.speaking && j.spoken < assistant.Seconds(rules.MinSeconds):
		j.goOn()
	case enough, rules.MinWords == 0 && rules.ResumeSeconds == 0:
		j.forget()
	case complete, (failed || j.due(j.by)) && rules.ResumeSeconds > 0:
		j.goOn()
	case failed, j.due(j.by):
		j.forget() // nobody knows what was said
	}
}

// forget takes what was said for an interruption: it is answered.
func (j *interruption) forget() { j.stopped, j.answers.judging = nil, false }

func (j *interruption) deadline() time.Time {
	if j.stopped == nil || j.speaking {
		return time.Time{}
	}
	return j.by
}

// goOn has the upstream say what was not heard of the answer, in place of an answer to what was said.
func (j *interruption) goOn() {
	r := j.stopped
	j.forget()
	for _, it := range j.said {
		it.unheeded = true
		j.answers.giveUp(func(n need) bool { return n.id == it.id })
	}
	at := slices.IndexFunc(r.messages, (*message).isCut)
	if !r.done || at < 0 {
		if r.record.Status == realtime.ResponseCancelled && len(r.messages) == 0 {
			j.answers.again() // it had said nothing yet
		}
		return
	}
	m := r.messages[at]
	rest, whole := strings.CutPrefix(m.text(), m.heardText())
	complete := whole && r.record.Status == realtime.ResponseCompleted
	if rest = toolkit.Head(strings.TrimSpace(rest), MaxInputText); complete && rest == "" {
		return
	}
	how := says(realtime.SayExactly + rest)
	if !complete {
		how = map[string]json.RawMessage{"instructions": encode(j.settings.instructions() +
			"\n\nA noise has stopped you in the middle of your last answer. Go on with it from the word at which you were " +
			"stopped. Neither repeat what was heard nor mention the noise. What you were going to say next: " + rest)}
	}
	j.record.Interruptions--
	j.saveCall()
	j.answers.need(need{id: resumeID, acked: true, response: how, resumes: m})
}

// resumeID is the id of the need for the rest of an answer.
const resumeID = "resume"

// countWords counts the words of a text: where words have no spaces between them, their characters.
func countWords(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		characters, letters := 0, false
		for _, r := range word {
			letters = letters || unicode.IsLetter(r) || unicode.IsNumber(r)
			if unicode.In(r, unspaced...) {
				characters++
			}
		}
		if letters {
			n += max(1, characters)
		}
	}
	return n
}
