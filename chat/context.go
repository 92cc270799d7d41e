package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// ContextBuilder provides what the model should know when it reads a user's message. It must be
// safe for concurrent use.
type ContextBuilder interface {
	// Context returns text that precedes the user's text in requests; empty for none. It is saved
	// with the message and repeated unchanged in later turns, because providers cache the unchanged
	// beginning of a conversation. If it fails, that is logged and the turn goes on without it.
	Context(ctx context.Context, in ContextInput) (string, error)
}

// ContextInput is the turn that a context is for.
type ContextInput struct {
	Key  thread.Key
	Text string // the user's
	Now  time.Time
}

// TurnObserver is notified of every finished turn, for example to remember it.
type TurnObserver interface {
	// TurnFinished is called after the turn is saved and the thread is free. ctx
	// ends after half a minute.
	TurnFinished(ctx context.Context, report TurnReport)
}

// RequestObserver is a TurnObserver that is also notified of requests that belong to no turn.
type RequestObserver interface {
	// RequestFinished is called with a request to the provider's model for a title, or to read a call, which succeeded.
	RequestFinished(provider string, request records.Response)
}

// TurnReport describes a turn that has ended.
type TurnReport struct {
	Key    thread.Key
	Result Result
	// Closed means that the request had a Closing, which already knows the result.
	Closed bool
	// Settled are the ids of queued messages that waited for another answer, and which the turn has answered or
	// replaced.
	Settled []string
	// Course is what the turn spent its time on.
	Course Course
}

// DefaultContext is the built-in [ContextBuilder]: it provides the date and time and, with
// Memories, messages on the same subject in the owner's other threads.
type DefaultContext struct {
	// Location is the time zone; nil means the machine's.
	Location *time.Location
	// Memories searches other threads; nil turns this off.
	Memories messageSearcher
}

// messageSearcher searches the owner's other threads; *persistence.Store implements it.
type messageSearcher interface {
	SearchMessages(ctx context.Context, key thread.Key, words []string, limit int) ([]persistence.SearchHit, error)
}

const (
	maxMemories    = 3
	maxCandidates  = 20 // of which the best are memories
	maxMemoryRunes = 300
	maxMemoryWords = 8
	minWordRunes   = 3 // what the index of parts of words can find
	minPartRunes   = 5 // of a word that is looked for within others, too
)

func (c *DefaultContext) Context(ctx context.Context, in ContextInput) (string, error) {
	zone := cmp.Or(c.Location, time.Local)
	now := in.Now.In(zone).Format("Monday, 2 January 2006, 15:04 MST")
	text := "date and time: " + now
	if c.Memories == nil {
		return "[CONTEXT: " + text + "]", nil
	}
	found, err := c.recall(ctx, in)
	for _, f := range found {
		who := "the user"
		if f.Role == thread.RoleAssistant {
			who = "you"
		}
		text += fmt.Sprintf("; on %s in another conversation %s said: %q",
			f.CreatedAt.In(zone).Format("2 January 2006"), who, oneLine(f.Text))
	}
	return "[CONTEXT: " + text + "]", err
}

// recall finds the best memories: those with the most of the words that say something about the subject, and at least a
// third of them, in whatever form.
func (c *DefaultContext) recall(ctx context.Context, in ContextInput) ([]persistence.SearchHit, error) {
	words := keywords(in.Text)
	if len(words) == 0 {
		return nil, nil
	}
	found, err := c.Memories.SearchMessages(ctx, in.Key, words, maxCandidates)
	if err != nil {
		return nil, fmt.Errorf("find memories: %w", err)
	}
	said := map[string]bool{in.Text: true} // a question that is asked again is no memory
	found = slices.DeleteFunc(found, func(f persistence.SearchHit) bool {
		again := said[f.Text]
		said[f.Text] = true
		return again
	})
	for i := range found {
		found[i].Hits = mentions(found[i].Text, words)
	}
	found = slices.DeleteFunc(found, func(f persistence.SearchHit) bool { return f.Hits == 0 || 3*f.Hits < len(words) })
	slices.SortStableFunc(found, func(a, b persistence.SearchHit) int { return b.Hits - a.Hits })
	return found[:min(len(found), maxMemories)], nil
}

// mentions counts the stems that occur in a text. A short one is found as a word only: there is a car in a card.
func mentions(text string, stems []string) (n int) {
	lower, words := strings.ToLower(text), map[string]bool{}
	for _, w := range wordsOf(lower) {
		words[stem(w)] = true
	}
	for _, s := range stems {
		if words[s] || (utf8.RuneCountInString(s) >= minPartRunes || !isASCII(s)) && strings.Contains(lower, s) {
			n++
		}
	}
	return n
}

// keywords returns the stems of a text's longest words, which say most about its subject. Short words count unless they
// are ASCII: in some scripts, words are short.
func keywords(text string) []string {
	var stems []string
	for _, w := range wordsOf(strings.ToLower(cutRunes(text, 2000))) {
		n := utf8.RuneCountInString(w)
		if s := stem(w); (n >= minWordRunes || !isASCII(w)) && n <= 40 && !commonWords[w] &&
			!slices.Contains(stems, s) {
			stems = append(stems, s)
		}
	}
	slices.SortStableFunc(stems, func(a, b string) int { return utf8.RuneCountInString(b) - utf8.RuneCountInString(a) })
	return stems[:min(len(stems), maxMemoryWords)]
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

func isASCII(text string) bool { return utf8.RuneCountInString(text) == len(text) }

// stem returns the beginning that the forms of an English word, in lower case, have in common. It is always a part of
// the word, so that the index of parts of words finds the other forms by it.
func stem(word string) string {
	for _, ending := range []string{"ing", "ies", "ed", "es", "s"} {
		if s, ok := strings.CutSuffix(word, ending); ok && len(s) >= minWordRunes && !strings.HasSuffix(word, "ss") {
			word = s
			break
		}
	}
	if n := len(word); n > minWordRunes && 'a' <= word[n-1] && word[n-1] <= 'z' &&
		(word[n-1] == word[n-2] || strings.IndexByte("eyi", word[n-1]) >= 0) {
		word = word[:n-1]
	}
	return word
}

// commonWords say nothing about the subject of a question.
var commonWords = func() map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(`
		a about again all also always am an and another any anything are as ask at be because been before being but by
		can could did do does doing done dont even ever every for from get give go going got had has have having he
		hello her here hers hey him his how i if in into is it its just know last less let like likely look made make
		many may maybe me mean might mine more most much must my need never new no not nothing now of off often ok
		okay on once one only or other our out over own please quite really remember remind said same say says see
		shall she should show since so some something still such sure talk tell than thank thanks that the their them
		then there these they thing things think this those though through to told too under until up us use very want
		was we well were what when where whether which while who whom whose why will with without would yes yet you
		your yours
		aber alle als also auch auf aus bei bin bist das dass dein deine dem den der des die dir doch du ein eine
		einen einer erzähl für habe haben hast hat ich ihr ihre im ist ja kann kannst mein meine meinem meinen meiner
		mich mir mit nach nicht noch nur oder sag sein seine sich sie sind über und uns unser von war was weiß weißt
		wenn wer wie wir wird wissen wo zu zum zur
		avec ce ces cette comme dans des elle est et les leur mais mes mon nous par pas pour que qui quoi sais ses son
		sont sur une vous
		como con cuál del donde el ella eres es esta este las los más mis muy para pero por qué que quién sabes ser
		sin sobre son sus una`) {
		all[w] = true
	}
	return all
}()

// oneLine makes text fit between the brackets of a context.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch r {
		case '[':
			return '('
		case ']':
			return ')'
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
	return strings.TrimSuffix(cutRunes(text, maxMemoryRunes), cutMark)
}

// withContext records the text that precedes a user's message in requests.
func withContext(m thread.Message, note string) thread.Message {
	if note == "" {
		return m
	}
	return withExtra(m, extraContext, note)
}

// withExtra adds a value to a message's metadata.
func withExtra(m thread.Message, key string, value any) thread.Message {
	m.Metadata.Extra = maps.Clone(m.Metadata.Extra)
	if m.Metadata.Extra == nil {
		m.Metadata.Extra = map[string]json.RawMessage{}
	}
	m.Metadata.Extra[key] = toolkit.Encode(value)
	return m
}

// extraText returns a text in a message's metadata; empty for none.
func extraText(m *thread.Message, key string) (text string) {
	if json.Unmarshal(m.Metadata.Extra[key], &text) != nil {
		return ""
	}
	return text
}
