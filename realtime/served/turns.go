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

// turns judges by what was said whether the caller is done, and whether they interrupt.
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
