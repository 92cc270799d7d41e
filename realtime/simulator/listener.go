package simulator

import (
	"strings"
	"time"

	"voicebridge/realtime"
)

// listener turns the caller's audio into utterances: user items with their transcriptions.
type listener struct {
	wire      *wire
	clock     *clock
	set       *settings
	items     *items
	player    *player
	responder *responder
	detector  *detector
	script    *Script
	pace      Pace
	faults    Faults

	utterances int      // so far: they rotate in the script
	userItem   string   // the future item of the speech in progress
	speaking   bool     // the user is speaking
	inEvents   bool     // the caller's sound comes in events
	idle       int      // generation of the idle timer
	heldBack   []func() // transcriptions held back until the next one
}

// speechEvent takes an event of the detector.
func (l *listener) speechEvent(h speechEvent) {
	if l.set.turnDetection == nil || !l.detector.current(h.cycle) {
		return
	}
	if h.started {
		l.speechStarted(h.atMS)
		if !l.inEvents { // where only sound tells the time
			l.watchSpeech()
		}
	} else if l.speaking {
		l.speechStopped(h.atMS)
	}
}

// watchSpeech ends speech whose packets no longer come.
func (l *listener) watchSpeech() {
	l.clock.after(100*time.Millisecond, func() {
		if l.detector.starved(time.Now()) {
			l.watchSpeech()
		}
	})
}

func (l *listener) speechStarted(atMS int64) {
	l.speaking = true
	l.idle++
	l.userItem = newID("item_")
	l.wire.emit(object{"type": realtime.TypeInputSpeechStarted, "item_id": l.userItem, "audio_start_ms": atMS})
	if t := l.set.turnDetection; t == nil || !t.interrupt {
		return
	}
	if r := l.responder.active; r != nil {
		l.responder.cancel(r, "turn_detected")
	}
	l.player.flush()
}

func (l *listener) speechStopped(atMS int64) {
	l.speaking = false
	l.wire.emit(object{"type": realtime.TypeInputSpeechStopped, "item_id": l.userItem, "audio_end_ms": atMS})
	l.commit(l.userItem)
	if l.set.turnDetection == nil || !l.set.turnDetection.create {
		return
	}
	if l.responder.active != nil {
		l.wire.refuse(activeResponse(l.responder.active.id))
		return
	}
	l.responder.start(nil, nil)
}

// commitInput answers input_audio_buffer.commit.
func (l *listener) commitInput() *realtime.Error {
	if l.detector.decoder != nil {
		if ms := l.detector.commit(); ms < minCommitMS {
			return refuse("input_audio_buffer_commit_empty", "",
				"Error committing input audio buffer: buffer too small. Expected at least %dms of audio, "+
					"but buffer only has %d.00ms of audio.", minCommitMS, ms)
		}
	}
	id := newID("item_")
	if l.speaking {
		id, l.speaking = l.userItem, false
	}
	l.commit(id)
	return nil
}

// commit makes a user item from the audio that was heard.
func (l *listener) commit(id string) {
	reply := &l.script.Spoken[l.utterances%len(l.script.Spoken)]
	l.utterances++
	it := &item{
		id: id, kind: realtime.ItemMessage, role: "user", status: "completed", spoken: true,
		words: reply.Transcript, reply: reply,
		content: []object{{"type": realtime.ContentInputAudio, "transcript": nil}},
	}
	l.items.append(it)
	previous := l.items.previous(id)
	l.wire.emit(object{"type": realtime.TypeInputCommitted, "item_id": id, "previous_item_id": previous})
	announce := func() {
		l.wire.emit(object{"type": realtime.TypeItemAdded, "previous_item_id": previous, "item": it.shown()})
		l.wire.emit(object{"type": realtime.TypeItemDone, "previous_item_id": previous, "item": it.shown()})
	}
	if l.faults.ItemsOutOfOrder {
		l.clock.after(l.pace.Think+4*l.pace.Step, func() { l.afterAnswer(announce) })
	} else {
		announce()
	}
	if l.set.transcribe {
		l.transcribe(it)
	}
}

// afterAnswer calls announce once the response in progress, if there is one, has an item.
func (l *listener) afterAnswer(announce func()) {
	if r := l.responder.active; r != nil && len(r.items) == 0 {
		l.clock.after(l.pace.Step, func() { l.afterAnswer(announce) })
		return
	}
	announce()
}

// transcribe sends the transcription of an utterance, asynchronously.
func (l *listener) transcribe(it *item) {
	send := func() { l.sendTranscript(it) }
	switch l.faults.Transcripts {
	case TranscriptNever:
	case TranscriptFailed:
		l.clock.after(l.pace.Transcript, func() {
			l.wire.emit(object{
				"type": realtime.TypeTranscriptionFailed, "item_id": it.id, "content_index": 0,
				"error": object{
					"type": "transcription_error", "code": "audio_unintelligible",
					"message": "The audio could not be transcribed.", "param": nil,
				},
			})
		})
	case TranscriptLate:
		l.clock.after(l.pace.Transcript+l.pace.Think+2*time.Second, send)
	case TranscriptReversed:
		l.heldBack = append(l.heldBack, send)
		if len(l.heldBack) < 2 {
			return
		}
		first, second := l.heldBack[0], l.heldBack[1]
		l.heldBack = nil
		l.clock.after(l.pace.Transcript, func() { second(); first() })
	default:
		l.clock.after(l.pace.Transcript, send)
	}
}

func (l *listener) sendTranscript(it *item) {
	if l.items.find(it.id) == nil {
		return
	}
	emit := func(o object, text string) {
		if l.set.logprobs {
			o["logprobs"] = logprobs(text)
		}
		l.wire.emit(o)
	}
	for _, delta := range chunks(it.words) {
		emit(object{
			"type": realtime.TypeTranscriptionDelta, "item_id": it.id, "content_index": 0, "delta": delta,
		}, delta)
	}
	it.content[0]["transcript"] = it.words
	words := len(strings.Fields(it.words))
	emit(object{
		"type": realtime.TypeTranscriptionCompleted, "item_id": it.id, "content_index": 0, "transcript": it.words,
		"usage": object{
			"type": "tokens", "total_tokens": 12*words + words, "input_tokens": 12 * words, "output_tokens": words,
			"input_token_details": object{"audio_tokens": 12 * words, "text_tokens": 0},
		},
	}, it.words)
}

// logprobs returns the tokens of a transcript, one for each word.
func logprobs(text string) []any {
	tokens := []any{}
	for token := range strings.SplitAfterSeq(text, " ") {
		bytes := make([]int, len(token))
		for i := range bytes {
			bytes[i] = int(token[i])
		}
		tokens = append(tokens, object{"token": token, "logprob": -0.01, "bytes": bytes})
	}
	return tokens
}

// simulateSpeech behaves as if the user had spoken and stopped.
func (l *listener) simulateSpeech() {
	at := l.detector.position()
	l.speechStarted(at)
	l.speechStopped(at + 1000)
}

// configure adopts the turn detection of the settings.
func (l *listener) configure() {
	l.speaking = false
	l.detector.configure(l.set.turnDetection)
}

// clear answers input_audio_buffer.clear.
func (l *listener) clear() {
	l.detector.commit()
	l.speaking = false
	l.wire.emit(object{"type": realtime.TypeInputCleared})
}

// disarmIdle stops waiting for a silent caller.
func (l *listener) disarmIdle() { l.idle++ }

// armIdle starts waiting for a silent caller (idle_timeout_ms).
func (l *listener) armIdle() {
	l.idle++
	t := l.set.turnDetection
	if t == nil || t.idleMS == 0 {
		return
	}
	mine := l.idle
	l.clock.after(time.Duration(t.idleMS)*time.Millisecond, func() {
		if l.idle != mine || l.speaking || l.responder.active != nil || l.player.active() {
			return
		}
		at := l.detector.position()
		id := newID("item_")
		l.wire.emit(object{
			"type": realtime.TypeInputTimeoutTriggered, "item_id": id,
			"audio_start_ms": max(0, at-t.idleMS), "audio_end_ms": at,
		})
		l.commit(id)
		l.responder.start(nil, nil)
	})
}
