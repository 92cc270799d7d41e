package bench

import (
	"fmt"
	"strconv"
	"strings"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

const (
	// answerEvents is how many events make up one answer.
	answerEvents = 256
	// spoken is the text of an event behind its time of sending, about a word.
	spoken = " and a word"
	// timeBytes is how many bytes the time has.
	timeBytes = 10
)

// upstreamSession is the upstream's end of a call; *simulator.Session is one.
type upstreamSession interface {
	rtc.AudioSink
	// Emit sends an event; it must be called in Do.
	Emit(event map[string]any)
	Do(f func())
}

// speaker is a model that never stops speaking: it sends the transcripts of its answers in events. Its state belongs to
// the session's goroutine.
type speaker struct {
	session upstreamSession
	name    string // of the call, to make ids unique
	first   int    // how many events the first answer has; 0 means as many as the others

	answers, events int
	transcript      strings.Builder
}

// object is a JSON object.
type object = map[string]any

// speak sends the next event, stamped with the time of sending.
func (s *speaker) speak(at int64) {
	s.session.Do(func() { s.say(fmt.Sprintf("%0*s", timeBytes, strconv.FormatInt(at, 36)) + spoken) })
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

func (s *speaker) say(text string) {
	if s.events == 0 {
		s.begin()
	}
	s.transcript.WriteString(text)
	s.session.Emit(object{
		"type": realtime.TypeAudioTranscriptDelta, "response_id": s.response(), "item_id": s.item(),
		"output_index": 0, "content_index": 0, "delta": text,
	})
	s.events++
	if s.events == answerEvents || s.answers == 1 && s.events == s.first {
		s.finish()
	}
}

func (s *speaker) begin() {
	var previous any
	if s.answers > 0 {
		previous = s.item()
	}
	s.answers++
	item := s.shown("in_progress")
	s.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress, []any{})
	s.session.Emit(object{"type": realtime.TypeOutputItemAdded, "response_id": s.response(), "output_index": 0, "item": item})
	s.session.Emit(object{"type": realtime.TypeItemAdded, "previous_item_id": previous, "item": item})
	s.session.Emit(object{"type": realtime.TypeOutputBufferStarted, "response_id": s.response()})
}

func (s *speaker) finish() {
	item := s.shown("completed")
	s.session.Emit(object{
		"type": realtime.TypeAudioTranscriptDone, "response_id": s.response(), "item_id": s.item(),
		"output_index": 0, "content_index": 0, "transcript": s.transcript.String(),
	})
	s.session.Emit(object{"type": realtime.TypeOutputItemDone, "response_id": s.response(), "output_index": 0, "item": item})
	s.session.Emit(object{"type": realtime.TypeItemDone, "item": item})
	s.respond(realtime.TypeResponseDone, realtime.ResponseCompleted, []any{item})
	s.session.Emit(object{"type": realtime.TypeOutputBufferStopped, "response_id": s.response()})
	s.events = 0
	s.transcript.Reset()
}

func (s *speaker) shown(status string) object {
	content := []any{}
	if status == "completed" {
		content = append(content, object{"type": "output_audio", "transcript": s.transcript.String()})
	}
	return object{
		"id": s.item(), "object": "realtime.item", "type": realtime.ItemMessage, "role": "assistant", "status": status, "content": content,
	}
}

func (s *speaker) respond(kind, status string, output []any) {
	s.session.Emit(object{"type": kind, "response": object{
		"object": "realtime.response", "id": s.response(), "status": status, "output": output,
	}})
}
