package simulator

import (
	"strings"
	"time"

	"voicebridge/realtime"
)

// hearing is told by the ear.
func (s *Session) hearing(h heard) {
	if !s.opened || s.set.turns == nil || !s.ear.current(h.cycle) {
		return
	}
	if h.started {
		s.speechStarted(h.atMS)
		s.watchSpeech()
	} else if s.speaking {
		s.speechStopped(h.atMS)
	}
}

// watchSpeech looks after speech whose packets no longer come.
func (s *Session) watchSpeech() {
	s.after(100*time.Millisecond, func() {
		if s.ear.starved(time.Now()) {
			s.watchSpeech()
		}
	})
}

func (s *Session) speechStarted(atMS int64) {
	s.speaking = true
	s.idle++
	s.userItem = newID("item_")
	s.emit(object{"type": realtime.TypeInputSpeechStarted, "item_id": s.userItem, "audio_start_ms": atMS})
	if t := s.set.turns; t == nil || !t.interrupt {
		return
	}
	if s.resp != nil && !s.resp.aside {
		s.cancelResponse("turn_detected")
	}
	s.flush()
}

func (s *Session) speechStopped(atMS int64) {
	s.speaking = false
	s.emit(object{"type": realtime.TypeInputSpeechStopped, "item_id": s.userItem, "audio_end_ms": atMS})
	s.commit(s.userItem)
	if s.set.turns == nil || !s.set.turns.create {
		return
	}
	if s.resp != nil {
		s.fail(activeResponse(s.resp.id))
		return
	}
	s.startResponse(nil)
}

// commitInput answers input_audio_buffer.commit.
func (s *Session) commitInput() *realtime.Error {
	if s.ear.decoder != nil {
		if ms := s.ear.commit(); ms < minCommitMS {
			return refuse("input_audio_buffer_commit_empty", "",
				"Error committing input audio buffer: buffer too small. Expected at least %dms of audio, but buffer only has %d.00ms of audio.", minCommitMS, ms)
		}
	}
	id := newID("item_")
	if s.speaking {
		id, s.speaking = s.userItem, false
	}
	s.commit(id)
	return nil
}

// commit makes a user item of the audio that was heard.
func (s *Session) commit(id string) {
	reply := &s.cfg.Script.Spoken[s.turnNo%len(s.cfg.Script.Spoken)]
	s.turnNo++
	it := &item{
		id: id, kind: realtime.ItemMessage, role: "user", status: "completed", spoken: true,
		words: reply.Heard, reply: reply,
		content: []object{{"type": realtime.ContentInputAudio, "transcript": nil}},
	}
	s.conv.append(it)
	previous := s.conv.previous(id)
	s.emit(object{"type": realtime.TypeInputCommitted, "item_id": id, "previous_item_id": previous})
	announce := func() {
		s.emit(object{"type": realtime.TypeItemAdded, "previous_item_id": previous, "item": it.shown()})
		s.emit(object{"type": realtime.TypeItemDone, "previous_item_id": previous, "item": it.shown()})
	}
	if s.faults.ItemsOutOfOrder {
		s.after(s.cfg.Pace.Think+4*s.cfg.Pace.Step, announce)
	} else {
		announce()
	}
	if s.set.transcribe {
		s.transcribe(it)
	}
}

// transcribe sends the transcript of a spoken turn, asynchronously.
func (s *Session) transcribe(it *item) {
	send := func() { s.sendTranscript(it) }
	switch s.faults.Transcripts {
	case TranscriptNever:
	case TranscriptFailed:
		s.after(s.cfg.Pace.Transcript, func() {
			s.emit(object{
				"type": realtime.TypeTranscriptionFailed, "item_id": it.id, "content_index": 0,
				"error": object{
					"type": "transcription_error", "code": "audio_unintelligible",
					"message": "The audio could not be transcribed.", "param": nil,
				},
			})
		})
	case TranscriptLate:
		s.after(s.cfg.Pace.Transcript+s.cfg.Pace.Think+2*time.Second, send)
	case TranscriptReversed:
		s.heldBack = append(s.heldBack, send)
		if len(s.heldBack) < 2 {
			return
		}
		first, second := s.heldBack[0], s.heldBack[1]
		s.heldBack = nil
		s.after(s.cfg.Pace.Transcript, func() { second(); first() })
	default:
		s.after(s.cfg.Pace.Transcript, send)
	}
}

func (s *Session) sendTranscript(it *item) {
	if s.conv.find(it.id) == nil {
		return
	}
	for _, delta := range chunks(it.words) {
		s.emit(object{"type": realtime.TypeTranscriptionDelta, "item_id": it.id, "content_index": 0, "delta": delta})
	}
	it.content[0]["transcript"] = it.words
	words := len(strings.Fields(it.words))
	s.emit(object{
		"type": realtime.TypeTranscriptionCompleted, "item_id": it.id, "content_index": 0, "transcript": it.words,
		"usage": object{
			"type": "tokens", "total_tokens": 12*words + words, "input_tokens": 12 * words, "output_tokens": words,
			"input_token_details": object{"audio_tokens": 12 * words, "text_tokens": 0},
		},
	})
}

// armIdle starts the wait for a caller who says nothing (idle_timeout_ms).
func (s *Session) armIdle() {
	s.idle++
	t := s.set.turns
	if t == nil || t.idleMS == 0 {
		return
	}
	mine := s.idle
	s.after(time.Duration(t.idleMS)*time.Millisecond, func() {
		if s.idle != mine || s.speaking || s.resp != nil || s.play.active() {
			return
		}
		at := s.ear.position()
		id := newID("item_")
		s.emit(object{
			"type": realtime.TypeInputTimeoutTriggered, "item_id": id, "audio_start_ms": max(0, at-t.idleMS), "audio_end_ms": at,
		})
		s.commit(id)
		s.startResponse(nil)
	})
}

// chunks cuts a text into pieces of about three words; together they are the
// text.
func chunks(text string) []string {
	var out []string
	start, words := 0, 0
	for i, r := range text {
		if r != ' ' {
			continue
		}
		if words++; words == 3 {
			out = append(out, text[start:i])
			start, words = i, 0
		}
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}
