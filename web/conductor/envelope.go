package conductor

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"voicebridge/toolkit"
)

// Types of envelopes.
const (
	typeTranscript = "transcript.final"
	typeToolResult = "tool.result"
	typeInterrupt  = "interrupt"

	typePartial  = "assistant.speech.partial"
	typeFinal    = "assistant.speech.final"
	typeToolCall = "tool.call"
	typeError    = "error"
)

const (
	// notePrefix begins the ids of calls that need no answer.
	notePrefix = "told-"
	// timestampLayout is RFC 3339 with milliseconds.
	timestampLayout = "2006-01-02T15:04:05.000Z07:00"
)

// envelope is the message format in both directions.
type envelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	Timestamp string          `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
}

// textPayload is the payload of assistant.speech.partial and .final.
type textPayload struct {
	Text string `json:"text"`
}

// callPayload is the payload of tool.call.
type callPayload struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	// Arguments is JSON in a string.
	Arguments string `json:"arguments"`
}

type errorPayload struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// envelopes makes the envelopes of one session.
type envelopes struct {
	session string // as the app calls it
	now     func() time.Time
}

// envelope makes an envelope.
func (s *envelopes) envelope(kind string, payload any) envelope {
	return envelope{
		ID: newEnvelopeID(), Type: kind, SessionID: s.session,
		Timestamp: s.now().UTC().Format(timestampLayout), Payload: toolkit.Encode(payload),
	}
}

func newEnvelopeID() string { return uuid.Must(uuid.NewV7()).String() }

// note makes a call that needs no answer.
func (s *envelopes) note(name string, arguments any) envelope {
	data, _ := json.Marshal(arguments) // maps of strings and booleans
	return s.envelope(typeToolCall, callPayload{
		CallID: notePrefix + newEnvelopeID(), Name: name, Arguments: string(data),
	})
}

func (s *envelopes) state(state string) envelope {
	return s.note("convo.setState", map[string]any{"state": state})
}

func (s *envelopes) message(role, text string) envelope {
	return s.note("convo.appendMessage", map[string]any{"role": role, "text": text, "isPartial": false})
}
