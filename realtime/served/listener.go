package served

import (
	"strings"
	"sync"
	"time"

	"voicebridge/realtime"
)

// listener turns the caller's audio into utterances: user items with their transcriptions.
type listener struct {
	wire      *wire
	loop      *Loop
	set       *Settings
	items     *items
	player    *player
	responder *responder
	detector  *Detector
	ear       Ear
	logprobs  func(text string) []any
	tasks     *sync.WaitGroup

	userItem string // the future item of the speech in progress
	speaking bool   // the user is speaking
	inEvents bool   // the caller's sound comes in events
	idle     int    // generation of the idle timer
}

// speech takes an event of the detector.
func (l *listener) speech(h Speech) {
	if l.set.turnDetection == nil || !l.detector.current(h.cycle) {
		return
	}
	if h.Started {
		l.speechStarted(h.At)
		if !l.inEvents { // where only sound tells the time
			l.watchSpeech()
		}
	} else if l.speaking {
		l.speechStopped(h.At)
	}
}

// watchSpeech ends speech whose packets no longer come.
func (l *listener) watchSpeech() {
	l.loop.After(100*time.Millisecond, func() {
		if l.detector.Starved(time.Now()) {
			l.watchSpeech()
		}
	})
}

func (l *listener) speechStarted(atMS int64) {
	l.speaking = true
	l.idle++
	l.userItem = NewID("item_")
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
	id := NewID("item_")
	if l.speaking {
		id, l.speaking = l.userItem, false
	}
	l.commit(id)
	return nil
}

// commit makes a user item from the audio that was heard.
func (l *listener) commit(id string) {
	it := &Item{
		ID: id, Type: realtime.ItemMessage, Role: "user", Status: "completed", Spoken: true,
		Content: []object{{"type": realtime.ContentInputAudio, "transcript": nil}},
	}
	l.items.append(it)
	previous := l.items.previous(id)
	l.wire.emit(object{"type": realtime.TypeInputCommitted, "item_id": id, "previous_item_id": previous})
	l.items.announce(realtime.TypeItemAdded, it)
	l.items.announce(realtime.TypeItemDone, it)
	l.write(it)
}

// write has an utterance written down, and tells its words as they come if the session transcribes.
func (l *listener) write(it *Item) {
	ctx, tells := l.wire.ctx, l.set.transcribe
	pieces := l.ear.Write(ctx, Utterance{Item: it.ID})
	l.tasks.Go(func() {
		var failed error
		for text, err := range pieces {
			if failed = err; err != nil {
				break
			}
			l.loop.Do(func() {
				it.Words += text
				if tells {
					l.tell(it, object{"type": realtime.TypeTranscriptionDelta, "delta": text}, text)
				}
			})
		}
		if tells && ctx.Err() == nil {
			l.loop.Do(func() { l.written(it, failed) })
		}
	})
}

// tell sends an event about the words of an utterance.
func (l *listener) tell(it *Item, o object, text string) {
	if l.items.find(it.ID) == nil {
		return
	}
	o["item_id"], o["content_index"] = it.ID, 0
	if l.set.logprobs {
		o["logprobs"] = l.logprobs(text)
	}
	l.wire.emit(o)
}

// written ends the transcription of an utterance.
func (l *listener) written(it *Item, failed error) {
	if failed != nil {
		e := asError(failed, "transcription_error")
		l.wire.emit(object{
			"type": realtime.TypeTranscriptionFailed, "item_id": it.ID, "content_index": 0,
			"error": object{"type": e.Type, "code": e.Code, "message": e.Message, "param": nil},
		})
		return
	}
	it.Content = []object{{"type": realtime.ContentInputAudio, "transcript": it.Words}}
	words := len(strings.Fields(it.Words))
	l.tell(it, object{
		"type": realtime.TypeTranscriptionCompleted, "transcript": it.Words,
		"usage": object{
			"type": "tokens", "total_tokens": 12*words + words, "input_tokens": 12 * words, "output_tokens": words,
			"input_token_details": object{"audio_tokens": 12 * words, "text_tokens": 0},
		},
	}, it.Words)
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
	l.detector.Configure(l.set.turnDetection)
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
	if t == nil || t.idle == 0 {
		return
	}
	mine := l.idle
	l.loop.After(time.Duration(t.idle)*time.Millisecond, func() {
		if l.idle != mine || l.speaking || l.responder.active != nil || l.player.active() {
			return
		}
		at := l.detector.position()
		id := NewID("item_")
		l.wire.emit(object{
			"type": realtime.TypeInputTimeoutTriggered, "item_id": id,
			"audio_start_ms": max(0, at-t.idle), "audio_end_ms": at,
		})
		l.commit(id)
		l.responder.start(nil, nil)
	})
}
