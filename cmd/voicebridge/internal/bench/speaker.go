package bench

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"voicebridge/realtime"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
)

const (
	// answerEvents is how many events make up one answer.
	answerEvents = 256
	// spoken is the text of an event behind its time of sending, about a word.
	spoken = " and a word"
	// pcmRate is how many samples a second of an upstream's sound has.
	pcmRate = 24000
	// timeBytes is how many bytes the time has.
	timeBytes = 10
)

// object is a JSON object.
type object = map[string]any

// speaker is a model that never stops speaking: it sends the transcripts of its answers in events. Once it has a session, its
// state belongs to the session's goroutine.
type speaker struct {
	session interface {
		Emit(event map[string]any) // in Do only
		Do(f func())
	}
	name string // of the call, to make ids unique
	// sound is what is heard with each event, one after the other, in base64; nil if the sound goes its own way.
	sound []string

	answers, events int
	transcript      strings.Builder
}

// speak sends the next event, stamped with the time of sending.
func (s *speaker) speak(at int64) {
	text := fmt.Sprintf("%0*s", timeBytes, strconv.FormatInt(at, 36)) + spoken
	s.session.Do(func() {
		if s.transcript.Len() == 0 {
			s.begin()
		}
		s.transcript.WriteString(text)
		s.emit(realtime.TypeAudioTranscriptDelta, object{"item_id": s.item(), "output_index": 0, "content_index": 0, "delta": text})
		if s.sound != nil {
			s.emit(realtime.TypeOutputAudioDelta, object{"item_id": s.item(), "output_index": 0, "content_index": 0, "delta": s.sound[s.events%len(s.sound)]})
		}
		if s.events++; s.events >= answerEvents {
			s.finish()
		}
	})
}

// spokenSound returns speech as an upstream sends it over WebSocket, in pieces that last as long as the time between two events.
func spokenSound(events int) ([]string, error) {
	decoder, err := opus.NewDecoder(pcmRate)
	if err != nil {
		return nil, err
	}
	var samples []byte
	for _, frame := range simulator.UserSpeech() {
		decoded, err := decoder.Decode(frame)
		if err != nil {
			return nil, err
		}
		samples = pcm.Linear.Append(samples, decoded)
	}
	var pieces []string
	for piece := range slices.Chunk(samples, pcmRate/events*2) {
		pieces = append(pieces, base64.StdEncoding.EncodeToString(piece))
	}
	return pieces, nil
}

// spokenAt returns the time in the text of an event.
func spokenAt(delta string) (at int64, ok bool) {
	if len(delta) != timeBytes+len(spoken) {
		return 0, false
	}
	at, err := strconv.ParseInt(delta[:timeBytes], 36, 64)
	return at, err == nil
}

func (s *speaker) item() string     { return fmt.Sprintf("item_%s_%d", s.name, s.answers) }
func (s *speaker) response() string { return fmt.Sprintf("resp_%s_%d", s.name, s.answers) }

// emit sends an event of the current response.
func (s *speaker) emit(kind string, event object) {
	event["type"], event["response_id"] = kind, s.response()
	s.session.Emit(event)
}

func (s *speaker) begin() {
	var previous any
	if s.answers > 0 {
		previous = s.item()
	}
	s.answers++
	item := s.shown("in_progress", []any{})
	s.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress, []any{})
	s.emit(realtime.TypeOutputItemAdded, object{"output_index": 0, "item": item})
	s.session.Emit(object{"type": realtime.TypeItemAdded, "previous_item_id": previous, "item": item})
	if s.sound == nil {
		s.emit(realtime.TypeOutputBufferStarted, object{})
	}
}

func (s *speaker) finish() {
	transcript := s.transcript.String()
	item := s.shown("completed", []any{object{"type": "output_audio", "transcript": transcript}})
	s.emit(realtime.TypeAudioTranscriptDone, object{"item_id": s.item(), "output_index": 0, "content_index": 0, "transcript": transcript})
	s.emit(realtime.TypeOutputItemDone, object{"output_index": 0, "item": item})
	s.session.Emit(object{"type": realtime.TypeItemDone, "item": item})
	s.respond(realtime.TypeResponseDone, realtime.ResponseCompleted, []any{item})
	if s.sound == nil {
		s.emit(realtime.TypeOutputBufferStopped, object{})
	}
	s.events = 0
	s.transcript.Reset()
}

func (s *speaker) shown(status string, content []any) object {
	return object{"id": s.item(), "object": "realtime.item", "type": realtime.ItemMessage, "role": "assistant", "status": status, "content": content}
}

func (s *speaker) respond(kind, status string, output []any) {
	s.session.Emit(object{"type": kind, "response": object{"object": "realtime.response", "id": s.response(), "status": status, "output": output}})
}
