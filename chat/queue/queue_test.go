package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

// TestQueue lets messages wait while a turn runs, and then sends them.
func TestQueue(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		hold := make(chan struct{})
		p := &provider{answer: func(_ context.Context, words string) error {
			if words == "first" {
				<-hold
			}
			return nil
		}}
		b := start(t, open(t), p, queue.Config{Enabled: true})
		w := b.watch(b.store)
		turn, err := b.turns.Turn(t.Context(), chat.TurnRequest{Key: b.key, Text: "first"})
		must(t, err)
		two, err := b.q.Add(t.Context(), b.key, queued.Message{
			Text: "second", ClientID: "tab", IdempotencyKey: "k2", ImageIDs: []string{"i1"},
		})
		must(t, err)
		b.add("third")
		if list, pause := b.list(); len(list) != 2 || pause != nil {
			t.Errorf("List() = %+v, %+v", list, pause)
		}
		close(hold)
		testkit.Take(t, "the end of turn", turn.Done())
		b.waitFor(b.key, "user completed: first\nassistant completed: ok\nuser completed: second\nassistant completed: ok\nuser completed: third\nassistant completed: ok\n")
		checkText(t, "what was told", w.until("queue_updated removed 0"), `
queue_updated added 1
queue_updated added 2
queue_message_sending
queue_updated removed 1
queue_message_sent
queue_message_sending
queue_updated removed 0`)
		m, err := b.store.Message(t.Context(), b.key, two.MessageID)
		must(t, err)
		for name, want := range map[string]string{"queue_id": two.ID, "client_id": "tab", "idempotency_key": "k2"} {
			testkit.Equal(t, string(m.Metadata.Extra[name]), `"`+want+`"`, "the message says of %s", name)
		}
		testkit.Equal(t, strings.ReplaceAll(string(m.Metadata.Extra["image_ids"]), " ", ""), `["i1"]`, "the message says of image_ids")
	})
}

// TestChanges changes waiting messages, and checks the events about it.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.SQLite(t), &provider{}, queue.Config{MaxSize: 3, Delay: 7 * time.Second})
	if got, want := b.q.Settings(), (queue.Settings{MaxSize: 3, DelaySeconds: 7}); got != want {
		t.Errorf("Settings() = %+v, want %+v", got, want)
	}
	w := b.watch(b.store)
	one, two, three := b.add("one"), b.add("two"), b.add("three")
	if _, err := b.q.Add(t.Context(), b.key, queued.Message{Text: "four"}); !errors.Is(err, queued.ErrFull) {
		t.Errorf("Add() to a full queue = %v", err)
	}
	must(t, b.q.Move(t.Context(), b.key, three.ID, true))
	if err := b.q.Move(t.Context(), b.key, one.ID, true); err != nil { // already the first
		t.Errorf("Move() = %v", err)
	}
	if m, err := b.q.Edit(t.Context(), b.key, two.ID, "zwei"); err != nil || m.Text != "zwei" {
		t.Errorf("Edit() = %+v, %v", m, err)
	}
	must(t, b.q.Remove(t.Context(), b.key, one.ID))
	if _, err := b.q.Get(t.Context(), b.key, one.ID); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Get() of a removed one = %v", err)
	}
	list, _ := b.list()
	testkit.Equal(t, []string{list[0].Text, list[1].Text}, []string{"three", "zwei"}, "List()")
	if n, err := b.q.Clear(t.Context(), b.key); n != 2 || err != nil {
		t.Errorf("Clear() = %d, %v", n, err)
	}
	if n, err := b.q.Clear(t.Context(), b.key); n != 0 || err != nil {
		t.Errorf("Clear() of nothing = %d, %v", n, err)
	}
	checkText(t, "what was told", w.until("queue_updated cleared 0"), `
queue_updated added 1
queue_updated added 2
queue_updated added 3
queue_reordered
queue_reordered
queue_updated removed 2
queue_updated cleared 0`)
}

// TestReorderedFits reports the order of long messages in a small event.
func TestReorderedFits(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.SQLite(t), &provider{}, queue.Config{})
	w := b.watch(b.store)
	var last queued.Message
	for n := range 60 {
		last = b.add(fmt.Sprintf("%d %s", n, strings.Repeat("\u2028", 1000)))
	}
	must(t, b.q.Move(t.Context(), b.key, last.ID, true))
	for e := range w.events {
		if e.Type != "queue_reordered" {
			continue
		}
		var d struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || len(d.Messages) == 0 || len(e.Data) > 7500 {
			t.Errorf("%d bytes with %d messages, %v", len(e.Data), len(d.Messages), err)
		}
		return
	}
}

// TestByHand sends messages of a queue that is switched off.
func TestByHand(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	p := &provider{answer: func(context.Context, string) error { <-hold; return nil }}
	b := start(t, persistencetest.SQLite(t), p, queue.Config{})
	one, two := b.add("one"), b.add("two")
	must(t, b.q.Send(b.within(), b.key, two.ID))
	if err := b.q.Send(b.within(), b.key, one.ID); !errors.Is(err, persistence.ErrBusy) {
		t.Errorf("Send() while a turn runs = %v", err)
	}
	for _, id := range []string{two.ID, "q-1-deadbeef", ""} {
		if err := b.q.Send(b.within(), b.key, id); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("Send(%q) = %v", id, err)
		}
	}
	close(hold)
	b.waitFor(b.key, "user completed: two\nassistant completed: ok\n")
	if list, _ := b.list(); len(list) != 1 {
		t.Errorf("List() = %+v", list)
	}
}

// TestDelay keeps a pause between turns, but not before the first one.
func TestDelay(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	store := persistencetest.SQLite(t)
	b := prepare(t, store, &provider{}, queue.Config{Delay: delay, Enabled: true})
	began := time.Now()
	b.add("one")
	b.add("two")
	b.run()
	b.waitFor(b.key, "user completed: one\nassistant completed: ok\nuser completed: two\nassistant completed: ok\n")
	all, err := store.Messages(t.Context(), b.key, 0, 10)
	must(t, err)
	if first, second := all[0].Metadata.CreatedAt, all[2].Metadata.CreatedAt; second.Sub(first) < delay || first.Before(began.Add(-time.Second)) {
		t.Errorf("the second message came %v after the first, want %v at least", second.Sub(first), delay)
	}
}

// TestSendingBeginsBeforeTheDelay announces the next message when a turn has ended, and only then waits.
func TestSendingBeginsBeforeTheDelay(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		b := prepare(t, open(t), &provider{}, queue.Config{Delay: time.Hour, Every: 20 * time.Millisecond, Enabled: true})
		w := b.watch(b.store)
		b.add("one")
		two := b.add("two")
		b.run()
		checkText(t, "what was told", w.until("queue_message_sent"), `
queue_updated added 1
queue_updated added 2
queue_message_sending
queue_updated removed 1
queue_message_sent`)
		checkText(t, "what was told then", w.until("queue_message_sending"), "\nqueue_message_sending")
		if list, _ := b.list(); len(list) != 1 || list[0].ID != two.ID {
			t.Errorf("List() = %+v", list)
		}
		// A user who does not want to wait hears it only once.
		must(t, b.q.Send(t.Context(), b.key, two.ID))
		checkText(t, "what was told in the end", w.until("queue_message_sent"), "\nqueue_updated removed 0\nqueue_message_sent")
	})
}

// TestSchedule sends a message when its time comes.
func TestSchedule(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.SQLite(t), &provider{}, queue.Config{Every: 20 * time.Millisecond, Enabled: true})
	at := time.Now().Add(10 * time.Second) // even a busy machine adds both before that
	if _, err := b.q.Add(t.Context(), b.key, queued.Message{Text: "later", ScheduledAt: &at}); err != nil {
		t.Fatal(err)
	}
	b.add("now")
	b.waitFor(b.key, "user completed: now\nassistant completed: ok\nuser completed: later\nassistant completed: ok\n")
	all, err := b.store.Messages(t.Context(), b.key, 0, 10)
	if err != nil || all[2].Metadata.CreatedAt.Before(at.Truncate(time.Microsecond)) {
		t.Errorf("the message came at %v, before %v; %v", all[2].Metadata.CreatedAt, at, err)
	}
}

// TestManyThreads starts with 100 waiting threads, and begins with the one used last.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		const threads = 100
		p := &provider{}
		b := prepare(t, open(t), p, queue.Config{MaxParallel: 1, Enabled: true})
		var keys []thread.Key
		for n := range threads {
			b.key = b.thread()
			keys = append(keys, b.key)
			b.add(fmt.Sprintf("t%02d", n))
		}
		slices.Reverse(keys)
		// Nobody has kicked the queues: a new process finds them in the table.
		restarted := prepare(t, b.store, p, queue.Config{MaxParallel: 1, Enabled: true})
		restarted.run()
		for n, key := range keys {
			restarted.waitFor(key, fmt.Sprintf("user completed: t%02d\nassistant completed: ok\n", threads-1-n))
		}
		if asked := p.seen(); len(asked) != threads || !slices.IsSortedFunc(asked, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("the threads were answered in the order %v", asked)
		}
	})
}

// TestTwoProcesses has two processes on one PostgreSQL empty the queues of some threads
// together: every message is sent once and in order, and never do two turns run on a
// thread. SQLite allows only one process.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	const threads, each = 5, 12
	url := persistencetest.PostgresURL(t)
	p := &provider{}
	cfg := queue.Config{Every: 10 * time.Millisecond, Enabled: true}
	var processes []*bench
	for range 2 {
		store := persistencetest.Open(t, url, persistence.Options{})
		if err := store.Serve(t.Context()); err != nil { // so that they notify each other
			t.Fatal(err)
		}
		processes = append(processes, prepare(t, store, p, cfg))
	}
	one := processes[0]
	var keys []thread.Key
	for range threads {
		keys = append(keys, one.thread())
	}
	for _, process := range processes {
		process.run()
	}
	var adding sync.WaitGroup
	for n, key := range keys {
		adding.Go(func() {
			for m := range each {
				text := fmt.Sprintf("t%d m%02d", n, m)
				if _, err := processes[(n+m)%2].q.Add(t.Context(), key, queued.Message{Text: text}); err != nil {
					t.Errorf("Add() = %v", err)
				}
			}
		})
	}
	adding.Wait()
	for n, key := range keys {
		var want strings.Builder
		for m := range each {
			fmt.Fprintf(&want, "user completed: t%d m%02d\nassistant completed: ok\n", n, m)
		}
		one.waitFor(key, want.String())
	}
	if len(p.seen()) != threads*each || p.crowd() != 1 {
		t.Errorf("%d requests, %d at once on a thread; want %d and 1", len(p.seen()), p.crowd(), threads*each)
	}
}

// TestStops ends a process in the middle of a turn: the next process answers the message
// again, and it is in the thread once.
func TestStops(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		entered := make(chan struct{}, 1)
		p := &provider{answer: func(ctx context.Context, _ string) error {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}
		store := open(t)
		b := prepare(t, store, p, queue.Config{Enabled: true})
		stop := b.run()
		m := b.add("one")
		testkit.Take(t, "the beginning", entered)
		stop()
		checkText(t, "the thread", b.script(b.key), "user completed: one\nassistant interrupted:")
		if got, err := store.Queued.Message(t.Context(), b.key, m.ID); err != nil || got.State != queued.Answering {
			t.Errorf("Message() = %+v, %v", got, err)
		}
		again := &provider{}
		next := prepare(t, store, again, queue.Config{Enabled: true})
		next.run()
		next.waitFor(b.key, "user completed: one\nassistant interrupted: \nassistant completed: ok\n")
		testkit.Equal(t, again.seen(), []string{"one"}, "the next process asked")
		b.key = b.thread()
		if err := b.q.Send(b.within(), b.key, b.add("two").ID); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Send() after the end = %v", err)
		}
	})
}
