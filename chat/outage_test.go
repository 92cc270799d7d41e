package chat_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// hold keeps everyone else from writing to a database until release is called.
func hold(t *testing.T, b *bench) (release func()) {
	t.Helper()
	other := persistencetest.NewThread(t, b.store, "ben", "")
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = b.store.Batch(context.Background(), other, func(w *persistence.Batch) error {
			if _, err := w.AppendMessage(thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("x")}}); err != nil {
				t.Errorf("AppendMessage() = %v", err)
			}
			close(held)
			<-free
			return nil
		})
	}()
	testkit.Take(t, "that it is held", held)
	return func() {
		close(free)
		<-done
	}
}

// TestSlowDatabase has a database that hangs while an answer is streamed: its words keep
// coming.
func TestSlowDatabase(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		const words, pace = 300, 50 * time.Millisecond // fifteen seconds
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			for range words {
				if sleep(ctx, pace) != nil || !yield(llm.Delta{Text: "word "}, nil) {
					return
				}
			}
			yield(llm.Delta{Stop: llm.StopEnd}, nil)
		}}
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		release := hold(t, b)
		begun := time.Now()
		published := 0
		for e, err := range turn.Events(t.Context(), 0) {
			must(t, err)
			if e.Type == chat.EventTextDelta {
				published++
			}
			if published == words-50 && release != nil {
				if took := time.Since(begun); took > (words-40)*pace {
					t.Errorf("%d words took %v", published, took)
				}
				release()
				release = nil
			}
		}
		r, _ := turn.Wait(t.Context())
		if took := time.Since(begun); r.Status != thread.StatusCompleted || r.Message.Parts == nil || took > (words+20)*pace {
			t.Errorf("Wait() = %+v after %v", r, took)
		}
		if got := b.messages()[1]; strings.Count(got.Text(), "word") != words {
			t.Errorf("%d words are saved", strings.Count(got.Text(), "word"))
		}
		b.stop()
	})
}

// TestSlowEnd has a database that hangs for five seconds while a turn ends: whoever is told of the end can read it.
func TestSlowEnd(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		answered, end := make(chan struct{}), make(chan struct{})
		provider := &fake{name: "fake", answer: func(_ context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			yield(llm.Delta{Text: "Forty-two."}, nil)
			close(answered)
			<-end
			yield(llm.Delta{Stop: llm.StopEnd}, nil)
		}}
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		<-answered
		time.AfterFunc(5*time.Second, hold(t, b))
		close(end)
		if r, err := turn.Wait(t.Context()); err != nil || r.Message.Parts == nil {
			t.Errorf("Wait() = %+v, %v", r, err)
		}
		checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant completed: | \"Forty-two.\"")
		b.stop()
	})
}

// TestOutage has a database that is away for a minute while a turn ends: the waiting
// client gets the answer, and it is saved once the database is back.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		answered, end := make(chan struct{}), make(chan struct{})
		provider := &fake{name: "fake", answer: func(_ context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
			if n == 0 {
				yield(llm.Delta{Text: "Forty-two."}, nil)
				close(answered)
				<-end
			}
			yield(llm.Delta{Text: "!", Stop: llm.StopEnd}, nil)
		}}
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		<-answered
		release := hold(t, b)
		begun := time.Now()
		close(end)
		r, err := turn.Wait(t.Context())
		if took := time.Since(begun); err != nil || r.Text != "Forty-two.!" || r.Status != thread.StatusCompleted || r.Message.Parts != nil || took > 40*time.Second {
			t.Errorf("Wait() = %+v, %v after %v", r, err, took)
		}
		must(t, sleep(t.Context(), time.Until(begun.Add(time.Minute))))
		release()
		must(t, sleep(t.Context(), 15*time.Second))
		checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant completed: | \"Forty-two.!\"")
		if r := b.say("Again"); r.Text != "!" {
			t.Errorf("the next turn says %q", r.Text)
		}
		b.stop()
	})
}
