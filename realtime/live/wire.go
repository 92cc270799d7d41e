package live

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"voicebridge/realtime"
)

// The events of a session that mean something here. Source: "Live events" of OpenAI's API reference.
const (
	typeStarted     = "session.started"
	typeUserDelta   = "session.input_transcript.delta"
	typeVoiceDelta  = "session.output_transcript.delta"
	typeDelegation  = "session.delegation.created"
	typeUsage       = "session.usage.updated"
	typeClosed      = "session.closed"
	typeError       = "error"
	typeClose       = "session.close"
	typeCommentary  = "session.commentary.append"
	typeThinking    = "session.thinking.append"
	typeInstruction = "session.instructions.append"
)

// event is what a session sends. Fields that an event has not, or in another form, are empty.
type event struct {
	Type          string `json:"type"`
	EventID       string `json:"event_id"`
	ClientEventID string `json:"client_event_id"`
	// Delta is a fragment of a transcript, of the time from Start to End by the session's clock.
	Delta      string       `json:"delta"`
	Start      milliseconds `json:"start_ms"`
	End        milliseconds `json:"end_ms"`
	Delegation struct {
		ID string `json:"id"`
	} `json:"delegation"`
	Session struct {
		ID        string  `json:"id"`
		ExpiresAt float64 `json:"expires_at"`
	} `json:"session"`
	Usage struct {
		Seconds float64 `json:"seconds"`
	} `json:"usage"`
	Reason string  `json:"reason"`
	Error  failure `json:"error"`
}

// failure is an error, which may name the command that has caused it.
type failure struct {
	realtime.Error

	Command string
}

// UnmarshalJSON never fails on an object.
func (f *failure) UnmarshalJSON(b []byte) error {
	var own struct {
		Command string `json:"client_event_id"`
	}
	_ = json.Unmarshal(b, &own)
	f.Command = own.Command
	return json.Unmarshal(b, &f.Error)
}

// milliseconds are those of the session's clock.
type milliseconds int64

// UnmarshalJSON takes whole numbers and fractions; what is no time counts as zero.
func (m *milliseconds) UnmarshalJSON(b []byte) error {
	var f float64
	if json.Unmarshal(b, &f) == nil && f >= 0 && f < 1<<40 {
		*m = milliseconds(math.Round(f))
	}
	return nil
}

// readLoosely reads what fits of an object; a field of another form is left empty.
func readLoosely(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err
}

// tree is a JSON object.
type tree = map[string]any

func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:20]) }

// Limits of what a session is told at once. Source: the guides "Live conversations" and "Live delegation"; the
// characters are what developers have measured.
const (
	maxInput        = 128       // messages of history
	maxInputTokens  = 8000      // of the documented 8,192
	maxInstructions = 16_000    // tokens, of 16,384
	maxAppend       = 1400      // characters of ASCII in an append, of 500 tokens
	maxAppendOther  = 480       // bytes, if there are others
	maxHistoryText  = 6000      // bytes of one message of history
	messageTokens   = 8         // around each message
	maxAnswer       = 256 << 10 // bytes of the answer to a creation
)

// tokens is at least how many tokens a text has, nearly always.
func tokens(text string) int {
	ascii, other := 0, 0
	for _, r := range text {
		if r < 0x80 {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+2)/3 + other
}

// pieces cuts a text into parts that an append takes, at the ends of sentences, else between words.
func pieces(text string) (parts []string) {
	text = strings.TrimSpace(text)
	for text != "" {
		n := pieceLength(text)
		parts = append(parts, strings.TrimSpace(text[:n]))
		text = strings.TrimSpace(text[n:])
	}
	return parts
}

// pieceLength returns how many bytes of text an append takes.
func pieceLength(text string) int {
	limit := maxAppend
	for at, r := range text {
		if at >= limit {
			break
		}
		if r >= 0x80 {
			limit = maxAppendOther
			break
		}
	}
	if len(text) <= limit {
		return len(text)
	}
	head := realtime.HeadOf(text, limit)
	for _, ends := range []string{".!?。！？\n", ",;:、，；：", " \t"} {
		if at := strings.LastIndexAny(head, ends); at > limit/3 {
			_, size := utf8.DecodeRuneInString(head[at:])
			return at + size
		}
	}
	return len(head)
}

// Message is a message of the history.
type Message struct {
	Role string // user, assistant or developer
	Text string
}

// closing is the last message of a history: without it a session says again what stands there.
const closing = "All of this was said before. Do not repeat or answer it; go on from here when the user speaks."

// input writes a history as a session takes it: the newest messages that fit, and the first one if a developer has
// written it.
func input(history []Message) []tree {
	if len(history) == 0 {
		return nil
	}
	message := func(m Message) tree {
		kind := "input_text"
		if m.Role == "assistant" {
			kind = "output_text"
		}
		return tree{"type": "message", "role": m.Role, "content": []tree{{"type": kind, "text": m.Text}}}
	}
	cost := func(m Message) int { return tokens(m.Text) + messageTokens }
	last := Message{"developer", closing}
	room, places := maxInputTokens-cost(last), maxInput-1
	var first []tree
	if history[0].Role == "developer" {
		m := cut(history[0])
		first = []tree{message(m)}
		history = history[1:]
		room, places = room-cost(m), places-1
	}
	at := len(history)
	for ; at > 0 && len(history)-at < places; at-- {
		if room -= cost(cut(history[at-1])); room < 0 {
			break
		}
	}
	for _, m := range history[at:] {
		first = append(first, message(cut(m)))
	}
	return append(first, message(last))
}

func cut(m Message) Message {
	if len(m.Text) > maxHistoryText {
		m.Text = realtime.HeadOf(m.Text, maxHistoryText) + " […]"
	}
	return m
}

// notSupported is the error about what a session cannot do.
func notSupported(what string) realtime.Error {
	message := fmt.Sprintf("This voice model does not take %s.", what)
	return realtime.Error{Code: "not_supported_by_upstream", Message: message}
}
