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
	Key  persistence.Key
	Text string // the user's
	Now  time.Time
}

// TurnObserver is notified of every finished turn, for example to remember it.
type TurnObserver interface {
	// TurnFinished is called after the turn is saved and the thread is free. ctx
	// ends after half a minute.
	TurnFinished(ctx context.Context, report TurnReport)
}

// TitleObserver is a TurnObserver that is also notified of requests for titles.
type TitleObserver interface {
	// TitleFinished is called with a request to the provider's model for a title, which succeeded.
	TitleFinished(provider string, request persistence.ResponseRecord)
}

// TurnReport describes a turn that has ended.
type TurnReport struct {
	Key    persistence.Key
	Result Result
	// Closed means that the request had a Closing, which already knows the result.
	Closed bool
	// Settled are the ids of queued messages that waited for another answer, and which the turn has answered or replaced.
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
	SearchMessages(ctx context.Context, key persistence.Key, words []string, limit int) ([]persistence.SearchHit, error)
}

const (
	maxMemories    = 3
	maxMemoryRunes = 300
	maxMemoryWords = 8
	minWordRunes   = 4
)

// Context implements [ContextBuilder].
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
		if f.Role == persistence.RoleAssistant {
			who = "you"
		}
		text += fmt.Sprintf("; on %s in another conversation %s said: %q", f.CreatedAt.In(zone).Format("2 January 2006"), who, oneLine(f.Text))
	}
	return "[CONTEXT: " + text + "]", err
}

// recall finds the best memories: those that contain at least half of the words.
func (c *DefaultContext) recall(ctx context.Context, in ContextInput) ([]persistence.SearchHit, error) {
	words := keywords(in.Text)
	if len(words) == 0 {
		return nil, nil
	}
	found, err := c.Memories.SearchMessages(ctx, in.Key, words, maxMemories)
	if err != nil {
		return nil, fmt.Errorf("find memories: %w", err)
	}
	return slices.DeleteFunc(found, func(f persistence.SearchHit) bool { return 2*f.Hits < len(words) }), nil
}

// keywords returns the longest words of a text, which say most about its subject. Short words count unless they are
// ASCII: in some scripts, words are short.
func keywords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(cutRunes(text, 2000)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	words = slices.DeleteFunc(words, func(w string) bool {
		n := utf8.RuneCountInString(w)
		return n < minWordRunes && n == len(w) || n > 40
	})
	slices.SortStableFunc(words, func(a, b string) int { return utf8.RuneCountInString(b) - utf8.RuneCountInString(a) })
	var distinct []string
	for _, w := range words {
		if !slices.Contains(distinct, w) {
			distinct = append(distinct, w)
		}
	}
	return distinct[:min(len(distinct), maxMemoryWords)]
}

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
func withContext(m persistence.Message, note string) persistence.Message {
	if note == "" {
		return m
	}
	return withExtra(m, extraContext, note)
}

// withExtra adds a value to a message's metadata.
func withExtra(m persistence.Message, key string, value any) persistence.Message {
	m.Metadata.Extra = maps.Clone(m.Metadata.Extra)
	if m.Metadata.Extra == nil {
		m.Metadata.Extra = map[string]json.RawMessage{}
	}
	m.Metadata.Extra[key] = toolkit.Encode(value)
	return m
}

// extraText returns a text in a message's metadata; empty for none.
func extraText(m *persistence.Message, key string) (text string) {
	if json.Unmarshal(m.Metadata.Extra[key], &text) != nil {
		return ""
	}
	return text
}
