package served

import (
	"context"
	"sync"
	"time"

	"voicebridge/realtime"
)

// scribe has the Ear write utterances down.
type scribe struct {
	wire  *wire
	loop  *Loop
	ear   Ear
	tasks *sync.WaitGroup
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

// write has an utterance written down, of which silent means that nobody speaks in it. It calls piece for each of its
// words and done after them, on the session's goroutine.
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
