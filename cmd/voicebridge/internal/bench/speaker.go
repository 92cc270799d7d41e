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

// speaker is a model that never stops speaking: it sends the transcripts of its answers in events. Once it has a
// session, its state belongs to the session's goroutine.
type speaker struct {
	session interface {
		Emit(event map[string]any) // in Do only
		Do(f func())
	}
	name string // of the call, to make ids unique
	// sound is what is heard with each event, in base64; nil if the sound goes its own way.
	sound []string

	answers    int
	events     int
	transcript strings.Builder
}

// speak sends the next event, stamped with the time of sending.
func (s *speaker) speak(at int64) {
	text := fmt.Sprintf("%0*s", timeBytes, strconv.FormatInt(at, 36)) + spoken
	s.session.Do(func() {
		if s.transcript.Len() == 0 {
			s.begin()
		}
		s.transcript.WriteString(text)
		s.emit(realtime.TypeAudioTranscriptDelta, object{"item_id": s.id("item"), "delta": text})
		if s.sound != nil {
			sound := s.sound[s.events%len(s.sound)]
			s.emit(realtime.TypeOutputAudioDelta, object{"item_id": s.id("item"), "delta": sound})
		}
		if s.events++; s.events >= answerEvents {
			s.finish()
		}
	})
}

func (s *speaker) begin() {
	var previous any
	if s.answers > 0 {
		previous = s.id("item")
	}
	s.answers++
	item := s.item("in_progress", []any{})
	s.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress, []any{})
	s.emit(realtime.TypeOutputItemAdded, object{"item": item})
	s.emit(realtime.TypeItemAdded, object{"previous_item_id": previous, "item": item})
	if s.sound == nil {
		s.emit(realtime.TypeOutputBufferStarted, object{})
	}
}

func (s *speaker) finish() {
	transcript := s.transcript.String()
	item := s.item("completed", []any{object{"type": "output_audio", "transcript": transcript}})
	s.emit(realtime.TypeAudioTranscriptDone, object{"item_id": s.id("item"), "transcript": transcript})
	s.emit(realtime.TypeOutputItemDone, object{"item": item})
	s.emit(realtime.TypeItemDone, object{"item": item})
	s.respond(realtime.TypeResponseDone, realtime.ResponseCompleted, []any{item})
	if s.sound == nil {
		s.emit(realtime.TypeOutputBufferStopped, object{})
	}
	s.events = 0
	s.transcript.Reset()
}

// id returns the id of what the current answer has of a kind.
func (s *speaker) id(kind string) string { return fmt.Sprintf("%s_%s_%d", kind, s.name, s.answers) }

// emit sends an event of the current response, about its first item.
func (s *speaker) emit(kind string, event object) {
	event["type"], event["response_id"] = kind, s.id("resp")
	event["output_index"], event["content_index"] = 0, 0
	s.session.Emit(event)
}

func (s *speaker) item(status string, content []any) object {
	return object{
		"id": s.id("item"), "object": "realtime.item", "type": realtime.ItemMessage, "role": "assistant",
		"status": status, "content": content,
	}
}

func (s *speaker) respond(kind, status string, output []any) {
	response := object{"object": "realtime.response", "id": s.id("resp"), "status": status, "output": output}
	s.session.Emit(object{"type": kind, "response": response})
}

// spokenSound returns speech as an upstream sends it over WebSocket, in pieces that last as long as the time between
// two events.
func spokenSound(speech [][]byte, events int) ([]string, error) {
	decoder, err := opus.NewDecoder(pcmRate)
	if err != nil {
		return nil, err
	}
	var samples []byte
	for _, frame := range speech {
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
