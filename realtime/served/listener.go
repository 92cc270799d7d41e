package served

import (
	"cmp"
	"strings"
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
	scribe    scribe

	userItem string // the future item of the speech in progress
	speaking bool   // the user is speaking
	inEvents bool   // the caller's sound comes in events
	idle     int    // generation of the idle timer

	turns    *turns        // nil: each turn ends by its silence, and is answered before its words are known
	unsure   *interruption // speech over an answer of which it is not known whether it interrupts
	writing  *writing      // of the speech in progress, if that may be its end
	awaited  int           // utterances whose words are not known yet
	answers  bool          // some of those that are known ask for an answer
	endedAt  time.Time     // the last speech
	lastMark marks         // of the utterance that was written last
}

// interruption is speech over an answer of which it is not known yet whether it ends that.
type interruption struct {
	at    int64   // where in the stream it began, in ms
	ended *Speech // nil: it goes on
}

// speech takes an event of the detector.
func (l *listener) speech(h Speech) {
	switch {
	case l.set.turnDetection == nil || !l.detector.current(h.cycle):
	case h.Started:
		l.userItem = NewID("item_")
		if !l.interrupts(h.At) {
			l.speechStarted(h.At)
		}
		if !l.inEvents { // where only sound tells the time
			l.watchSpeech()
		}
	case h.paused, h.goesOn:
		l.foresee(h)
	case h.resumed:
		l.turns.learn(h.quiet)
		l.dropWriting()
	case l.unsure != nil:
		l.endedAt = time.Now().Add(-h.quiet)
		l.unsure.ended = &h
		l.foresee(h)
	case l.speaking:
		l.endedAt = time.Now().Add(-h.quiet)
		l.speechStopped(h)
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
	l.wire.emit(object{"type": realtime.TypeInputSpeechStarted, "item_id": l.userItem, "audio_start_ms": atMS})
	if t := l.set.turnDetection; t == nil || !t.interrupt {
		return
	}
	if r := l.responder.active; r != nil {
		l.responder.cancel(r, "turn_detected")
	}
	l.player.flush()
}

func (l *listener) speechStopped(h Speech) {
	l.speaking = false
	l.wire.emit(object{"type": realtime.TypeInputSpeechStopped, "item_id": l.userItem, "audio_end_ms": h.At})
	l.commit(l.userItem, h.heard)
	if l.set.turnDetection == nil || !l.set.turnDetection.create || l.turns != nil {
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
	var heard Utterance
	if l.detector.decoder != nil {
		var ms int64
		if ms, heard = l.detector.commit(); ms < minCommitMS {
			return refuse("input_audio_buffer_commit_empty", "",
				"Error committing input audio buffer: buffer too small. Expected at least %dms of audio, "+
					"but buffer only has %d.00ms of audio.", minCommitMS, ms)
		}
	}
	id := NewID("item_")
	if l.speaking {
		id, l.speaking = l.userItem, false
	}
	l.dropWriting()
	l.endedAt = time.Now()
	l.commit(id, heard)
	return nil
}

// commit makes a user item from the audio that was heard.
func (l *listener) commit(id string, heard Utterance) {
	w := l.writing
	if w == nil || w.part {
		l.dropWriting()
		w = l.write(id, heard)
	}
	l.writing = nil
	it := w.item
	l.items.append(it)
	previous := l.items.previous(id)
	l.wire.emit(object{"type": realtime.TypeInputCommitted, "item_id": id, "previous_item_id": previous})
	l.items.announce(realtime.TypeItemAdded, it)
	l.items.announce(realtime.TypeItemDone, it)
	w.committed, w.endedAt, w.turn = true, l.endedAt, time.Now()
	l.awaited++
	if l.set.transcribe && it.Words != "" {
		l.scribe.tell(it, object{"type": realtime.TypeTranscriptionDelta, "delta": it.Words}, it.Words)
	}
	if w.done {
		l.written(w)
	}
}

// write has an utterance written down. Its words are told as they come once it is an item, if the session transcribes.
func (l *listener) write(id string, u Utterance) *writing {
	u.Item = id
	u.Language, u.Prompt, u.Keywords = l.set.transcription()
	return l.scribe.write(u, l.turns != nil && u.Speech < l.turns.least, l.piece, l.allWords)
}

func (l *listener) piece(w *writing, piece Words) {
	w.item.Words += piece.Text
	w.noSpeech = cmp.Or(piece.NoSpeech, w.noSpeech)
	if l.set.transcribe && w.committed {
		l.scribe.tell(w.item, object{"type": realtime.TypeTranscriptionDelta, "delta": piece.Text}, piece.Text)
	}
}

// allWords takes that an utterance is written down, or will not be.
func (l *listener) allWords(w *writing, failed error) {
	w.done, w.failed = true, failed
	if l.turns != nil && w.noSpeech > 0.6 && w.heard.Speech < time.Second {
		w.item.Words = "" // made up
	}
	switch {
	case w.committed:
		l.written(w)
	case w == l.writing:
		l.foreseen(w)
	}
}

// dropWriting forgets the words of speech that goes on, and the answer to them.
func (l *listener) dropWriting() {
	if l.writing != nil {
		l.writing.stop()
	}
	l.writing = nil
	l.responder.discard()
}

// written ends the transcription of an utterance.
func (l *listener) written(w *writing) {
	l.awaited--
	if l.set.transcribe {
		l.scribe.tellWritten(w, l.turns != nil)
	}
	if l.turns == nil {
		return
	}
	l.wire.outcome(w.failed)
	l.lastMark = marks{since: w.endedAt, turn: w.turn, transcription: time.Now()}
	t := l.set.turnDetection
	l.answers = l.answers || w.failed == nil && w.item.Words != "" && t != nil && t.create
	l.answer()
}

// answer begins the answer that is due: not while more is said, or its words are not known.
func (l *listener) answer() {
	switch {
	case l.awaited > 0:
	case l.responder.active != nil:
		l.responder.proceed()
	case l.answers && !l.speaking && l.unsure == nil:
		l.responder.answer(l.lastMark)
	}
}

// simulateSpeech behaves as if the user had spoken and stopped.
func (l *listener) simulateSpeech() {
	at := l.detector.position()
	l.userItem = NewID("item_")
	l.speechStarted(at)
	l.speechStopped(Speech{At: at + 1000})
}

// configure adopts the turn detection of the settings.
func (l *listener) configure() {
	l.speaking = false
	l.forgetInterruption()
	l.dropWriting()
	l.detector.Configure(l.turns.adopt(l.set.turnDetection))
}

// clear answers input_audio_buffer.clear.
func (l *listener) clear() {
	l.detector.commit()
	l.speaking = false
	l.forgetInterruption()
	l.dropWriting()
	l.wire.emit(object{"type": realtime.TypeInputCleared})
}

// begins takes that a response begins in the conversation: nobody waits for a silent caller.
func (l *listener) begins() {
	l.idle++
	l.answers = false
}

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
		l.commit(id, Utterance{})
		l.responder.start(nil, nil)
	})
}

// interrupts takes the beginning of speech at so many ms. It reports whether an answer waits for its words.
func (l *listener) interrupts(at int64) bool {
	if l.turns == nil || l.turns.Interruption == (Interruption{}) || !l.set.turnDetection.interrupt ||
		!l.player.active() && l.responder.active == nil {
		return false
	}
	mine := &interruption{at: at}
	l.unsure = mine
	l.player.hold()
	if wait := l.turns.Interruption.Resume; wait > 0 {
		l.loop.After(wait, func() {
			if l.unsure == mine {
				l.player.release() // words may still come
			}
		})
	}
	return true
}

// forgetInterruption lets the answer go on.
func (l *listener) forgetInterruption() {
	if l.unsure != nil {
		l.unsure = nil
		l.player.release()
	}
}

// foresee has speech written down that may be over, or may interrupt an answer.
func (l *listener) foresee(h Speech) {
	switch {
	case h.goesOn && (l.unsure == nil || l.writing != nil):
		return
	case l.unsure != nil && h.heard.Speech < l.turns.Interruption.MinSpeech:
		if l.unsure.ended != nil {
			l.dropWriting()
			l.forgetInterruption()
		}
		return
	case l.unsure != nil && l.turns.Interruption.Resume == 0 && l.turns.Interruption.MinWords == 0:
		l.confirm()
		return
	case l.unsure != nil && l.unsure.ended != nil && l.writing != nil && !l.writing.part:
		if l.writing.done {
			l.foreseen(l.writing)
		}
		return
	case h.goesOn:
		l.writing = l.write(l.userItem, h.heard)
		l.writing.part = true
		return
	}
	l.dropWriting()
	l.endedAt = time.Now().Add(-h.quiet)
	l.writing = l.write(l.userItem, h.heard)
}

// foreseen takes the words of what may be a whole turn: they say how long to wait for more. The answer to them is begun
// without a word of it.
func (l *listener) foreseen(w *writing) {
	words := strings.TrimSpace(w.item.Words)
	if l.unsure != nil {
		enough := len(strings.Fields(words)) >= max(1, l.turns.Interruption.MinWords)
		switch ended := l.unsure.ended; {
		case enough:
			l.confirm()
		case ended != nil: // nobody has spoken
			l.dropWriting()
			l.forgetInterruption()
			l.answer()
			return
		}
	}
	if w.part {
		l.writing = nil
		return
	}
	t := l.set.turnDetection
	if t == nil || w.failed != nil || words == "" || !l.speaking {
		return
	}
	if !t.fixed {
		l.detector.endAfter(l.turns.pause(words))
	}
	if t.create && l.responder.active == nil && l.awaited == 0 && !l.answers {
		l.responder.prepare(w.item)
	}
}

// confirm takes that speech interrupts the answer.
func (l *listener) confirm() {
	u := l.unsure
	l.unsure, l.player.held = nil, false
	l.speechStarted(u.at)
	if u.ended != nil {
		l.speechStopped(*u.ended)
	}
}
