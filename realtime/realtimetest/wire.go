package realtimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coder/websocket"
)

// wire is a connection to a client.
type wire struct {
	d      *Dialect
	conn   *websocket.Conn
	note   func(format string, args ...any) // of what should not be
	number int                              // of the session
	made   int                              // ids
}

func (s *wire) id(prefix string) string {
	s.made++
	return fmt.Sprintf("%s_%d_%d", prefix, s.number, s.made)
}

// betaOut are the names of events before general availability.
var betaOut = map[string]string{
	"response.output_audio.delta": "response.audio.delta", "response.output_audio.done": "response.audio.done",
	"response.output_audio_transcript.delta": "response.audio_transcript.delta", "response.output_audio_transcript.done": "response.audio_transcript.done",
	"response.output_text.delta": "response.text.delta", "response.output_text.done": "response.text.done",
	"conversation.item.added": "conversation.item.created",
}

func (s *wire) send(ctx context.Context, kind string, fields tree) {
	if old, ok := betaOut[kind]; ok && s.d.Beta {
		kind = old
	}
	if kind == "conversation.item.done" && (s.d.Beta || s.d.silent) {
		return
	}
	fields["type"], fields["event_id"] = kind, s.id("event")
	data, err := json.Marshal(fields)
	if err != nil {
		s.note("%v", err)
		return
	}
	s.published(FromServer, kind, data)
	_ = s.conn.Write(ctx, websocket.MessageText, data) // the reader sees that nobody is there
}

// nulls are those that OpenAI sends although its document does not say so.
var nulls = []string{"previous_item_id", "turn_detection", "transcript", "status_details", "usage"}

// published notes how an event differs from what OpenAI publishes. Sessions are sent without most of what they have;
// those of other vendors have other members, and their servers other events. All read what we send besides sessions as
// OpenAI does.
func (s *wire) published(direction, kind string, data []byte) {
	session := strings.HasPrefix(kind, "session.")
	if s.d.Beta || session && (direction == FromServer || !s.d.limited) || direction == FromServer && !s.d.limited {
		return
	}
	if err := Published(direction, data, nulls...); err != nil {
		s.note("session %d: not as OpenAI publishes it: %v: %.600s", s.number, err, data)
	}
}

// fail sends an error event.
func (s *wire) fail(ctx context.Context, eventID string, r refusal) {
	e := tree{"type": "invalid_request_error", "code": r.code, "message": r.message, "param": nil, "event_id": nil}
	if r.param != "" {
		e["param"] = r.param
	}
	if eventID != "" {
		e["event_id"] = eventID
	}
	s.send(ctx, "error", tree{"error": e})
}
