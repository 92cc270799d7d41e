package served

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Turning is how a session that keeps the caller's sound takes turns.
type Turning struct {
	// MinPause and MaxPause are the bounds of the silence that ends a turn, unless the client has set it.
	MinPause, MaxPause time.Duration
	// MinSpeech is how much speech makes an utterance.
	MinSpeech time.Duration
	// Interruption is what speech over an answer must have to end it.
	Interruption Interruption
}

// Interruption is what speech over an answer must have to end it. The answer goes quiet at once, and goes on from the
// word at which it was stopped if the speech turns out to be none. The zero value means any speech.
type Interruption struct {
	MinSpeech time.Duration
	MinWords  int
	// Resume is how long the answer waits for a word; zero means that no word is needed.
	Resume time.Duration
}

// turns judges by what was said whether the caller is done, and whether they interrupt. Methods but learn and adopt
// are those of the listener.
type turns struct {
	Turning

	least  time.Duration // of speech
	usual  time.Duration // length of this caller's pauses, an exponential mean
	scaled float64       // by the eagerness that the client has set
}

const (
	// firstUsual is how long a caller's pauses are taken to be before they are known.
	firstUsual = 400 * time.Millisecond
	// weight is that of the earlier pauses in their mean.
	weight = 0.9
)

func newTurns(t Turning) *turns {
	return &turns{Turning: t, least: t.MinSpeech, usual: firstUsual, scaled: 1}
}

// learn takes the length of a pause after which the caller went on.
func (t *turns) learn(pause time.Duration) {
	t.usual = time.Duration(weight*float64(t.usual) + (1-weight)*float64(min(pause, t.MaxPause)))
}

// adopt returns the turn detection for the detector: the silence is that of words which are not known.
func (t *turns) adopt(set *TurnDetection) *TurnDetection {
	if t == nil || set == nil || set.fixed {
		return set
	}
	own := *set
	t.scaled = float64(set.Silence) / 800 // that of the usual eagerness
	if !set.semantic {
		t.scaled = 1
	}
	own.Silence = t.pause("").Milliseconds()
	return &own
}

// pause returns how much silence ends a turn after such words: little after a sentence, much where one goes on.
func (t *turns) pause(words string) time.Duration {
	pause := 800 * time.Millisecond
	switch last, _ := utf8.DecodeLastRuneInString(words); {
	case strings.ContainsRune(".?!。？！؟।", last):
		pause = 300 * time.Millisecond
	case strings.ContainsRune(",;:、，…-–—", last), unfinished[lastWord(words)]:
		pause = 1500 * time.Millisecond
	}
	pause = time.Duration(float64(pause) * t.scaled * float64(t.usual) / float64(firstUsual))
	return max(t.MinPause, min(pause, t.MaxPause))
}

// unfinished are words after which a sentence goes on: conjunctions, articles, prepositions and what people say while
// they think.
var unfinished = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`and or but because so that if when which with for to of the a an my your is are
		um uh uhm er hmm like und oder aber weil dass wenn mit für zu von der die das ein eine mein dein äh ähm öh also
		et ou mais parce que si avec pour de le la les un une euh y o pero porque con para el los eh este e ma perché
		che per il gli ehm en of maar omdat met voor het een`) {
		words[word] = true
	}
	return words
}()

// lastWord returns the last word in lower case.
func lastWord(text string) string {
	text = strings.TrimRightFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	at := strings.LastIndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	return strings.ToLower(text[at+1:])
}

// interruption is speech over an answer of which it is not known yet whether it ends that.
type interruption struct {
	at    int64   // where in the stream it began, in ms
	ended *Speech // nil: it goes on
}

// interrupts takes the beginning of speech at so many ms. It reports whether an answer waits for its words.
func (l *listener) interrupts(at int64) bool {
	if l.turns == nil || l.turns.Interruption == (Interruption{}) || !l.set.turnDetection.interrupt ||
		!l.player.active() && l.responder.active == nil {
		return false
	}
	mine := &interruption{at: at}
	l.unsure = mine
	l.player.hold()
	if wait := l.turns.Interruption.Resume; wait > 0 {
		l.loop.After(wait, func() {
			if l.unsure == mine {
				l.player.release() // words may still come
			}
		})
	}
	return true
}

// forgetInterruption lets the answer go on.
func (l *listener) forgetInterruption() {
	if l.unsure != nil {
		l.unsure = nil
		l.player.release()
	}
}

// foresee has speech written down that may be over, or may interrupt an answer.
func (l *listener) foresee(h Speech) {
	switch {
	case h.goesOn && (l.unsure == nil || l.writing != nil):
		return
	case l.unsure != nil && h.heard.Speech < l.turns.Interruption.MinSpeech:
		if l.unsure.ended != nil {
			l.dropWriting()
			l.forgetInterruption()
		}
		return
	case l.unsure != nil && l.turns.Interruption.Resume == 0 && l.turns.Interruption.MinWords == 0:
		l.confirm()
		return
	case l.unsure != nil && l.unsure.ended != nil && l.writing != nil && !l.writing.part:
		if l.writing.done {
			l.foreseen(l.writing)
		}
		return
	case h.goesOn:
		l.writing = l.write(l.userItem, h.heard)
		l.writing.part = true
		return
	}
	l.dropWriting()
	l.endedAt = time.Now().Add(-h.quiet)
	l.writing = l.write(l.userItem, h.heard)
}

// foreseen takes the words of what may be a whole turn: they say how long to wait for more. The answer to them is begun
// without a word of it.
func (l *listener) foreseen(w *writing) {
	words := strings.TrimSpace(w.item.Words)
	if l.unsure != nil {
		enough := len(strings.Fields(words)) >= max(1, l.turns.Interruption.MinWords)
		switch ended := l.unsure.ended; {
		case enough:
			l.confirm()
		case ended != nil: // nobody has spoken
			l.dropWriting()
			l.forgetInterruption()
			l.answer()
			return
		}
	}
	if w.part {
		l.writing = nil
		return
	}
	t := l.set.turnDetection
	if t == nil || w.failed != nil || words == "" || !l.speaking {
		return
	}
	if !t.fixed {
		l.detector.endAfter(l.turns.pause(words))
	}
	if t.create && l.responder.active == nil && l.awaited == 0 && !l.answers {
		l.responder.prepare(w.item)
	}
}

// confirm takes that speech interrupts the answer.
func (l *listener) confirm() {
	u := l.unsure
	l.unsure = nil
	l.player.release()
	l.speechStarted(u.at)
	if u.ended != nil {
		l.speechStopped(*u.ended)
	}
}
