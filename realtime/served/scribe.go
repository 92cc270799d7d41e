package served

import (
	"context"
	"strings"
	"sync"
	"time"

	"voicebridge/realtime"
)

// scribe has the Ear write utterances down, and tells of their words.
type scribe struct {
	wire     *wire
	loop     *Loop
	set      *Settings
	items    *items
	ear      Ear
	tasks    *sync.WaitGroup
	logprobs func(text string) []any
}

// writing is an utterance that is being written down.
type writing struct {
	item      *Item
	heard     Utterance
	stop      func()
	done      bool
	failed    error
	noSpeech  float64
	part      bool // more has been said since it began
	committed bool
	endedAt   time.Time // the speech
	turn      time.Time // when that was known to be a turn
}

// write has an utterance written down; silent means that nobody speaks in it. It calls piece for each of its words and
// done after them, on the session's goroutine.
func (s *scribe) write(u Utterance, silent bool, piece func(*writing, Words), done func(*writing, error)) *writing {
	w := &writing{heard: u, item: &Item{
		ID: u.Item, Type: realtime.ItemMessage, Role: "user", Status: "completed", Spoken: true,
		Content: []object{{"type": realtime.ContentInputAudio, "transcript": nil}},
	}}
	ctx, stop := context.WithCancel(s.wire.ctx)
	w.stop = stop
	words := func(func(Words, error) bool) {}
	if !silent {
		words = s.ear.Write(ctx, u)
	}
	s.tasks.Go(func() {
		defer stop()
		var failed error
		for text, err := range words {
			if failed = err; err != nil {
				break
			}
			s.loop.Do(func() { piece(w, text) })
		}
		if ctx.Err() == nil {
			s.loop.Do(func() { done(w, failed) })
		}
	})
	return w
}

// tell sends an event about the words of an utterance.
func (s *scribe) tell(it *Item, o object, text string) {
	if s.items.find(it.ID) == nil {
		return
	}
	o["item_id"], o["content_index"] = it.ID, 0
	if s.set.logprobs && s.logprobs != nil {
		o["logprobs"] = s.logprobs(text)
	}
	s.wire.emit(o)
}

// tellWritten tells the words of an utterance, and what they took: its length if its sound was heard, else tokens.
func (s *scribe) tellWritten(w *writing, heard bool) {
	it := w.item
	if w.failed != nil {
		e := asError(w.failed, "transcription_error")
		s.wire.emit(object{
			"type": realtime.TypeTranscriptionFailed, "item_id": it.ID, "content_index": 0,
			"error": object{"type": e.Type, "code": e.Code, "message": e.Message, "param": nil},
		})
		return
	}
	it.Content = []object{{"type": realtime.ContentInputAudio, "transcript": it.Words}}
	words := len(strings.Fields(it.Words))
	usage := object{
		"type": "tokens", "total_tokens": 12*words + words, "input_tokens": 12 * words, "output_tokens": words,
		"input_token_details": object{"audio_tokens": 12 * words, "text_tokens": 0},
	}
	if heard {
		usage = object{"type": "duration", "seconds": float64(len(w.heard.Sound)) / earRate}
	}
	s.tell(it, object{"type": realtime.TypeTranscriptionCompleted, "transcript": it.Words, "usage": usage}, it.Words)
}
