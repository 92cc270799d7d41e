package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// bubble runs a test in virtual time, on SQLite.
func bubble(t *testing.T, test func(t *testing.T, store *persistence.Store)) {
	t.Helper()
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	synctest.Test(t, func(t *testing.T) {
		test(t, persistencetest.Open(t, url, persistence.Options{}))
	})
}

// sleep is a pause of a provider or a tool, in virtual time.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestSilence has a provider that says nothing, or stops speaking: what the turn is left with.
func TestSilence(t *testing.T) {
	half := llm.Delta{Text: "Half an"}
	for name, c := range map[string]struct {
		deltas []llm.Delta
		want   time.Duration
		text   string
	}{
		"from the beginning": {nil, 10*time.Second + 500*time.Millisecond + 10*time.Second, "The language model did not answer in time."},
		"in the middle":      {[]llm.Delta{half}, 10 * time.Second, "Half an"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *persistence.Store) {
				provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
					for _, d := range c.deltas {
						if !yield(d, nil) {
							return
						}
					}
					<-ctx.Done()
				}}
				b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, Settings: chat.Settings{Silence: 10 * time.Second}, Attempts: 2, NoTitles: true})
				begun := time.Now()
				turn := b.turn(chat.TurnRequest{Text: "Go"})
				r, _ := turn.Wait(t.Context())
				if took := time.Since(begun); r.Err == nil || r.Err.Kind != llm.KindTimeout || r.Text != c.text || took < c.want || took > c.want+time.Second {
					t.Errorf("Wait() = %+v, %v after %v", r, r.Err, took)
				}
				b.stop()
			})
		})
	}
}

// TestDrafts counts how often a growing long answer is sent and saved.
func TestDrafts(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		const words, pace = 200, 50 * time.Millisecond // ten seconds
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			for range words {
				if sleep(ctx, pace) != nil || !yield(llm.Delta{Text: "word "}, nil) {
					return
				}
			}
			yield(llm.Delta{Stop: llm.StopEnd}, nil)
		}}
		b := start(t, store, asking(provider))
		var mu sync.Mutex
		var drafts, saves int
		var last strings.Builder
		var kinds []string
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for e, err := range store.Watch(b.key).Events(ctx, -1) {
				if err != nil {
					return
				}
				mu.Lock()
				switch {
				case e.Type == "message_delta":
					drafts++
					var d persistence.Delta
					_ = json.Unmarshal(e.Data, &d) // shown below
					last.WriteString(d.ID + d.Text)
				case e.Type == persistence.EventMessage:
					saves++
				default:
					kinds = append(kinds, string(e.Type))
				}
				mu.Unlock()
			}
		}()
		synctest.Wait()
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		must(t, sleep(t.Context(), 5*time.Second+10*time.Millisecond))
		synctest.Wait()
		m, err := store.Message(t.Context(), b.key, turn.MessageID())
		if n := strings.Count(m.Text(), "word"); err != nil || n < 78 || m.Metadata.Status != thread.StatusInProgress {
			t.Errorf("after 5 s %d of 100 words are saved, %v", n, err)
		}
		mu.Lock()
		if n := strings.Count(last.String(), "word"); n < 96 || !strings.Contains(last.String(), turn.MessageID()) {
			t.Errorf("after 5 s %d of 100 words are sent: %s", n, last.String())
		}
		mu.Unlock()
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		<-watched
		if drafts < words || drafts > words+1 || saves < 2 || saves > 6 {
			t.Errorf("%d drafts, %d saves in ten seconds", drafts, saves)
		}
		checkText(t, "the rest", strings.Join(kinds, " "), "turn_started turn_finished")
		b.stop()
	})
}

// TestSilentTurn keeps the thread of a turn that says nothing for a long time.
func TestSilentTurn(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		slow := tool{"slow", func(ctx context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			if sleep(ctx, 25*time.Second) == nil {
				yield(result(toolkit.Result{Output: []byte(`"late"`)}), nil)
			}
		}}
		provider := deltas(calls("a", "slow", "{}"), calls("b", "slow", "{}"), says("done"))
		b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, slow), NoTitles: true})
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		for range 4 {
			must(t, sleep(t.Context(), 11*time.Second))
			row, err := store.RunningTurn(t.Context(), b.key)
			if err != nil || row.ID != turn.ID() {
				t.Fatalf("RunningTurn() = %+v, %v", row, err)
			}
		}
		if r, _ := turn.Wait(t.Context()); r.Text != "done" {
			t.Errorf("Wait() = %+v", r)
		}

		turn = b.turn(chat.TurnRequest{Text: "Again"})
		if r, _ := turn.Wait(t.Context()); r.Text != "done" {
			t.Errorf("Wait() = %+v", r)
		}
		b.stop()
	})
}

// TestLost takes the thread away from a turn.
func TestLost(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			for sleep(ctx, 100*time.Millisecond) == nil && yield(llm.Delta{Text: "on and "}, nil) {
			}
		}}
		b := start(t, store, asking(provider))
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		must(t, sleep(t.Context(), 3*time.Second))
		err := store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: turn.ID()}) })
		must(t, err)
		begun := time.Now()
		r, _ := turn.Wait(t.Context())
		if took := time.Since(begun); took > 3*time.Second || r.Status == thread.StatusCompleted {
			t.Errorf("Wait() = %+v after %v", r, took)
		}
		m, err := store.Message(t.Context(), b.key, turn.MessageID())
		if err != nil || len(m.Text()) >= len(r.Text) {
			t.Errorf("the turn went on writing: %d of %d bytes, %v", len(m.Text()), len(r.Text), err)
		}
		b.stop()
	})
}

// TestDeletedThread deletes the thread during a turn, which is not an error.
func TestDeletedThread(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		var logged strings.Builder
		provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			for sleep(ctx, 100*time.Millisecond) == nil && yield(llm.Delta{Text: "on and "}, nil) {
			}
		}}
		b := start(t, store, chat.Config{
			Providers: []llm.Provider{provider}, Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		must(t, sleep(t.Context(), time.Second))
		must(t, store.DeleteThread(t.Context(), b.key))
		begun := time.Now()
		if r, _ := turn.Wait(t.Context()); r.Status != thread.StatusInterrupted || time.Since(begun) > 3*time.Second {
			t.Errorf("Wait() = %+v after %v", r, time.Since(begun))
		}
		b.stop()
		if logged.Len() > 0 {
			t.Errorf("the log has %s", &logged)
		}
	})
}

// TestAbandon ends the request while its turn begins: afterwards it has begun, or it has
// not.
func TestAbandon(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		b := start(t, store, asking(deltas(says("ok"))))
		release := hold(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.c.Turn(ctx, chat.TurnRequest{Key: b.key, Text: "Go"}); err == nil {
			t.Error("Turn() whose request ended = nil")
		}
		release()
		if busy, err := b.c.Busy(t.Context(), b.key); busy || err != nil {
			t.Errorf("Busy() = %v, %v", busy, err)
		}
		if r := b.say("Again"); r.Text != "ok" {
			t.Errorf("the next turn says %q", r.Text)
		}
		for _, m := range b.messages() {
			if m.Metadata.Status == thread.StatusInProgress {
				t.Errorf("a message is left open:\n%s", outline(b.messages()))
			}
		}
		b.stop()
	})
}

// TestAbandonWithoutDatabase begins a turn while the database is away for a minute. Afterwards the thread is free.
func TestAbandonWithoutDatabase(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		b := start(t, store, asking(deltas(says("ok"))))
		release := hold(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := b.c.Turn(ctx, chat.TurnRequest{Key: b.key, Text: "Go"}); !errors.Is(err, persistence.ErrUnavailable) {
			t.Errorf("Turn() without the database = %v", err)
		}
		must(t, sleep(t.Context(), time.Minute))
		release()
		must(t, sleep(t.Context(), 5*time.Second))
		if r := b.say("Again"); r.Text != "ok" {
			t.Errorf("the next turn says %q", r.Text)
		}
		b.stop()
	})
}

// TestLargeOutputs has tools that return more than a message can hold.
func TestLargeOutputs(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		big := tool{"big", func(_ context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			yield(result(toolkit.Result{Output: []byte(`"` + strings.Repeat("x", 900<<10) + `"`), Model: "short"}), nil)
		}}
		provider := deltas(calls("a", "big", "{}", "b", "big", "{}", "c", "big", "{}"), says(strings.Repeat("\x01", 900<<10)))
		b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, big), NoTitles: true})
		r := b.say("Go")
		if r.Status != thread.StatusCompleted || r.Message.Metadata.Status != thread.StatusCompleted {
			t.Errorf("Wait() = %s, %v", r.Status, r.Err)
		}
		got := talk(provider.seen()[1].Messages)
		if strings.Count(got, "tool: short") != 2 || !strings.Contains(got, "more than this answer has room for") {
			t.Errorf("the model reads %.2000s", got)
		}
		if n := b.messages(); n[1].Metadata.Status != thread.StatusCompleted {
			t.Errorf("the message is %s", n[1].Metadata.Status)
		}
		b.stop()
	})
}
