package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

// TestTransient retries after a temporary failure: the message is in the thread once, and
// the next one waits.
func TestTransient(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		var tries atomic.Int64
		p := &provider{answer: func(_ context.Context, words string) error {
			if words == "one" && tries.Add(1) == 1 {
				return &llm.Error{Kind: llm.KindOverloaded, Message: "The provider is busy."}
			}
			return nil
		}}
		b := start(t, open(t), p, queue.Config{Enabled: true})
		w := b.watch(b.store)
		b.add("one")
		b.add("two")
		b.waitFor(b.key, "user completed: one\nassistant failed: The provider is busy.\nassistant completed: ok\nuser completed: two\nassistant completed: ok\n")
		w.until("queue_updated removed 0")
		if list, pause := b.list(); len(list) != 0 || pause != nil {
			t.Errorf("List() = %+v, %+v", list, pause)
		}
		all, err := b.store.Messages(t.Context(), b.key, 0, 100)
		if err != nil || !all[1].IsDiscarded() || all[2].IsDiscarded() {
			t.Errorf("the failed answer stays in the model's context: %+v, %v", all, err)
		}
	})
}

// TestGivesUp pauses a queue after a number of attempts.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	p := &provider{answer: func(context.Context, string) error {
		return &llm.Error{Kind: llm.KindUnavailable, Message: "Nobody there."}
	}}
	b := start(t, persistencetest.SQLite(t), p, queue.Config{MaxAttempts: 2, Enabled: true})
	w := b.watch(b.store)
	b.add("one")
	w.until("queue_paused unavailable")
	list, pause := b.list()
	if len(list) != 1 || list[0].Error != "Nobody there." || pause == nil || pause.Message != "After 2 attempts: Nobody there." {
		t.Errorf("List() = %+v, %+v", list, pause)
	}
	testkit.Equal(t, len(p.seen()), 2, "the model was asked times")
}

// TestPermanent has a queue pause after a failure that would only repeat itself, and
// resume when a user says so.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, kind := range []llm.ErrorKind{llm.KindAuth, llm.KindQuota, llm.KindTooLong, llm.KindBadRequest} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var works atomic.Bool
			p := &provider{answer: func(context.Context, string) error {
				if works.Load() {
					return nil
				}
				return &llm.Error{Kind: kind, Message: "No."}
			}}
			b := start(t, persistencetest.SQLite(t), p, queue.Config{Every: 5 * time.Millisecond, Enabled: true})
			w := b.watch(b.store)
			b.add("one")
			b.add("two")
			w.until("queue_paused " + string(kind))
			list, pause := b.list()
			if len(list) != 2 || list[0].Error != "No." || pause == nil || pause.Reason != string(kind) || pause.Message != "No." {
				t.Fatalf("List() = %+v, %+v", list, pause)
			}
			testkit.Equal(t, len(p.seen()), 1, "the model was asked times")
			works.Store(true)
			must(t, b.q.Resume(t.Context(), b.key))
			b.waitFor(b.key, "user completed: one\nassistant failed: No.\nassistant completed: ok\nuser completed: two\nassistant completed: ok\n")
		})
	}
}

// TestAnsweredByHand has a message whose turn has failed answered again, or replaced, by the user: the queue, in which it
// waits for its next attempt, does not answer it once more.
func TestAnsweredByHand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		turn func(key thread.Key, asked string) chat.TurnRequest
		want string
	}{
		"answered": {func(key thread.Key, asked string) chat.TurnRequest {
			return chat.TurnRequest{Key: key, Saved: true, MessageID: asked}
		}, ""},
		"replaced": {func(key thread.Key, asked string) chat.TurnRequest {
			return chat.TurnRequest{Key: key, Text: "instead", Back: asked}
		}, "user completed: instead\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
				var tries atomic.Int64
				p := &provider{answer: func(context.Context, string) error {
					if tries.Add(1) == 1 {
						return &llm.Error{Kind: llm.KindAuth, Message: "No."}
					}
					return nil
				}}
				b := start(t, open(t), p, queue.Config{Every: 5 * time.Millisecond, Enabled: true})
				w := b.watch(b.store)
				m := b.add("one")
				w.until("queue_paused auth")
				if _, err := b.turns.Turn(t.Context(), tt.turn(b.key, m.MessageID)); err != nil {
					t.Fatal(err)
				}
				w.until("queue_updated removed 0")
				b.add("two")
				b.waitFor(b.key, "user completed: one\nassistant failed: No.\n"+tt.want+"assistant completed: ok\nuser completed: two\nassistant completed: ok\n")
				if list, pause := b.list(); len(list) != 0 || pause != nil {
					t.Errorf("List() = %+v, %+v", list, pause)
				}
			})
		})
	}
}

// errOfDatabase is a refusal in the words of a database, which nobody else may read.
var errOfDatabase = fmt.Errorf("append message: %w: %w", persistence.ErrInvalid, errors.New("ERROR: index row size exceeds maximum (SQLSTATE 54000)"))

// refusing begins no turns.
type refusing struct {
	queue.Door
	err error
}

func (r refusing) Say(context.Context, chat.TurnRequest, chat.Mode) (chat.Answer, error) {
	return chat.Answer{}, r.err
}

// TestRefused pauses a queue because of a message that is refused, and says why, but not in the words
// of the database.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"the store":    {fmt.Errorf("begin turn: %w", persistence.Invalid("message: too long")), "invalid message: too long."},
		"the database": {errOfDatabase, "invalid value: it cannot be stored."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, persistencetest.SQLite(t), &provider{}, queue.Config{Enabled: true})
			b.door = refusing{chat.NewDoor(b.turns, noCalls{}), tt.err}
			b.run()
			w := b.watch(b.store)
			b.add("one")
			w.until("queue_paused too_long")
			b.wantPaused("The message cannot be sent: " + tt.want)
		})
	}
}

// observer is told about turns.
type observer func()

func (o observer) TurnFinished(context.Context, chat.TurnReport) { o() }

// TestLateReport resumes a queue before its turn's failure is reported. The queue must not
// pause again.
func TestLateReport(t *testing.T) {
	t.Parallel()
	p := &provider{answer: func(context.Context, string) error {
		return &llm.Error{Kind: llm.KindBadRequest, Message: "No."}
	}}
	hold, announced := make(chan struct{}), make(chan struct{})
	// Meanwhile the delay keeps the queue from sending again.
	b := prepare(t, persistencetest.SQLite(t), p,
		queue.Config{Delay: time.Hour, Enabled: true}, observers{
			before: []chat.TurnObserver{observer(func() { <-hold })},
			after:  []chat.TurnObserver{observer(func() { close(announced) })},
		})
	b.run()
	w := b.watch(b.store)
	b.add("one")
	w.until("queue_paused bad_request")
	must(t, b.q.Resume(t.Context(), b.key))
	w.until("queue_resumed")
	close(hold)
	testkit.Take(t, "the announcement", announced)
	if _, pause := b.list(); pause != nil {
		t.Errorf("the queue is paused again: %+v", pause)
	}
}

// TestDirectFailure pauses a queue because of a turn that was not its own.
func TestDirectFailure(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	p := &provider{answer: func(context.Context, string) error {
		<-hold
		return &llm.Error{Kind: llm.KindQuota, Message: "No money left."}
	}}
	b := start(t, persistencetest.SQLite(t), p, queue.Config{Enabled: true})
	w := b.watch(b.store)
	if _, err := b.turns.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "direct"}); err != nil {
		t.Fatal(err)
	}
	b.add("one")
	close(hold)
	w.until("queue_paused quota")
	list, pause := b.list()
	if len(list) == 0 {
		// The message was about to be sent when the turn failed, and goes back because of
		// that.
		w.until("queue_paused quota")
		list, pause = b.list()
	}
	if len(list) != 1 || pause == nil {
		t.Errorf("List() = %+v, %+v", list, pause)
	}
	if n := len(p.seen()); n > 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestResumesAfterSuccess resumes a queue when a turn of its thread succeeds.
func TestResumesAfterSuccess(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	p := &provider{answer: func(context.Context, string) error {
		if works.Load() {
			return nil
		}
		return &llm.Error{Kind: llm.KindQuota, Message: "No money left."}
	}}
	b := start(t, persistencetest.SQLite(t), p, queue.Config{Enabled: true})
	w := b.watch(b.store)
	b.add("one")
	w.until("queue_paused quota")
	works.Store(true)
	if _, err := b.turns.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "direct"}); err != nil {
		t.Fatal(err)
	}
	w.until("queue_resumed")
	b.waitFor(b.key, "user completed: one\nassistant failed: No money left.\nuser completed: direct\nassistant completed: ok\nassistant completed: ok\n")
	if list, pause := b.list(); len(list) != 0 || pause != nil {
		t.Errorf("List() = %+v, %+v", list, pause)
	}
	testkit.Equal(t, strings.Join(p.seen(), ", "), "one, direct, one", "the model was asked")
}

// TestResumedOftenEnough tries a message once more for each resume, however often it has
// failed before.
func TestResumedOftenEnough(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	p := &provider{answer: func(context.Context, string) error {
		if works.Load() {
			return nil
		}
		return &llm.Error{Kind: llm.KindUnavailable, Message: "Not now."}
	}}
	b := start(t, persistencetest.SQLite(t), p, queue.Config{MaxAttempts: 1, Enabled: true})
	w := b.watch(b.store)
	b.add("one")
	for range 3 {
		w.until("queue_paused unavailable")
		must(t, b.q.Resume(t.Context(), b.key))
	}
	w.until("queue_paused unavailable")
	testkit.Equal(t, len(p.seen()), 4, "the model was asked times")
	works.Store(true)
	list, _ := b.list()
	must(t, b.q.Send(t.Context(), b.key, list[0].ID))
	w.until("queue_resumed")
	if list, pause := b.list(); len(list) != 0 || pause != nil {
		t.Errorf("List() = %+v, %+v", list, pause)
	}
}

// TestCulpritIsGone resumes a queue when the message that paused it was changed or
// removed.
func TestCulpritIsGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(ctx context.Context, b *bench, id string) error{
		"removed": func(ctx context.Context, b *bench, id string) error { return b.q.Remove(ctx, b.key, id) },
		"edited": func(ctx context.Context, b *bench, id string) error {
			_, err := b.q.Edit(ctx, b.key, id, "good")
			return err
		},
		"cleared": func(ctx context.Context, b *bench, _ string) error {
			_, err := b.q.Clear(ctx, b.key)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{answer: func(_ context.Context, words string) error {
				if words == "bad" {
					return &llm.Error{Kind: llm.KindTooLong, Message: "No."}
				}
				return nil
			}}
			b := start(t, persistencetest.SQLite(t), p, queue.Config{Enabled: true})
			w := b.watch(b.store)
			m := b.add("bad")
			w.until("queue_paused too_long")
			must(t, change(t.Context(), b, m.ID))
			w.until("queue_resumed")
			b.add("next")
			b.waitFor(b.key, map[bool]string{
				false: "user completed: bad\nassistant failed: No.\nuser completed: next\nassistant completed: ok\n",
				true:  "user completed: bad\nassistant failed: No.\nuser completed: good\nassistant completed: ok\nuser completed: next\nassistant completed: ok\n",
			}[name == "edited"])
		})
	}
}

// TestResumesAfterStart resumes queues whose cause of the pause may be gone after a
// restart, and no others.
func TestResumesAfterStart(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		b := prepare(t, open(t), &provider{}, queue.Config{Enabled: true})
		paused := map[string]thread.Key{}
		for _, reason := range []string{"auth", "quota", "unavailable", "too_long", "bad_request"} {
			b.key = b.thread()
			paused[reason] = b.key
			b.add(reason)
			must(t, b.store.Queued.Pause(t.Context(), b.key, queued.Pause{Reason: reason, Message: "No."}))
		}
		b.run()
		for _, reason := range []string{"auth", "quota", "unavailable"} {
			b.waitFor(paused[reason], "user completed: "+reason+"\nassistant completed: ok\n")
		}
		for _, reason := range []string{"too_long", "bad_request"} {
			if pause, err := b.store.Queued.PauseOf(t.Context(), paused[reason]); err != nil || pause == nil || pause.Reason != reason {
				t.Errorf("PauseOf() of %s = %+v, %v", reason, pause, err)
			}
		}
	})
}

// TestInterrupted continues with the next message when the user stops an answer.
// TestInterrupted goes on with the next message when the user stops an answer.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 1)
	p := &provider{answer: func(ctx context.Context, words string) error {
		if words != "one" {
			return nil
		}
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	b := start(t, persistencetest.SQLite(t), p, queue.Config{Enabled: true})
	b.add("one")
	b.add("two")
	testkit.Take(t, "the beginning", entered)
	must(t, b.turns.Interrupt(t.Context(), b.key))
	b.waitFor(b.key, "user completed: one\nassistant interrupted: \nuser completed: two\nassistant completed: ok\n")
}

// TestDeletedThread sends nothing to a thread that is gone.
func TestDeletedThread(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.SQLite(t), &provider{}, queue.Config{})
	m := b.add("one")
	must(t, b.store.DeleteThread(t.Context(), b.key))
	if err := b.q.Send(b.within(), b.key, m.ID); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Send() = %v", err)
	}
	b.q.Kick(b.key)
	b.q.Spoke(b.key)
	b.q.CallEnded(b.key)
}
