package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// calls are those of a server with one: it saves what is said, as a live call does.
type calls struct {
	chat.Calls

	store *persistence.Store

	mu      sync.Mutex
	talking bool
	ended   bool
	fail    error
	spoken  chan string
}

func (c *calls) Call(thread.Key) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return "", false
	}
	return "call", c.talking
}

func (c *calls) set(talking bool, fail error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.talking, c.fail = talking, fail
}

func (c *calls) Say(ctx context.Context, key thread.Key, m thread.Message, queued string) (thread.Message, error) {
	c.mu.Lock()
	fail := c.fail
	c.mu.Unlock()
	if fail == nil {
		put := persistence.PutMessage{Message: m, Place: persistence.Place{How: persistence.PlaceLast}, Queued: queued}
		_, fail = persistencetest.Apply(ctx, c.store, key, []persistence.Change{put})
	}
	c.spoken <- m.Text()
	return m, fail
}

// call puts a live call on the bench's thread.
func (b *bench) call() *calls {
	b.t.Helper()
	c := &calls{store: b.store, spoken: make(chan string, 100)}
	b.door = chat.NewDoor(b.turns, c)
	must(b.t, b.store.Records.SaveCall(b.t.Context(), b.key, records.Call{ID: "call", StartedAt: time.Now()}))
	return c
}

func (b *bench) endCall(c *calls) {
	b.t.Helper()
	now := time.Now()
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	must(b.t, b.store.Records.SaveCall(b.t.Context(), b.key, records.Call{ID: "call", StartedAt: now, EndedAt: &now, EndReason: "hangup"}))
	b.q.CallEnded(b.key)
}

func wantSaid(t *testing.T, c *calls, want string) {
	t.Helper()
	select {
	case got := <-c.spoken:
		testkit.Equal(t, got, want, "was said")
	case <-time.After(patience):
		t.Fatalf("%q was not said", want)
	}
}

// TestCall speaks the waiting messages into the thread's call, one for each answer.
func TestCall(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		b := prepare(t, open(t), &provider{}, queue.Config{Every: 10 * time.Millisecond, Enabled: true})
		c := b.call()
		c.set(true, nil)
		b.run()
		w := b.watch(b.store)
		b.add("one")
		b.add("two")
		b.add("three")
		c.set(false, nil)
		b.q.Spoke(b.key)
		wantSaid(t, c, "one")
		w.until("queue_message_sent")
		// The answer to the first has not come: repeated looks find nothing to do.
		for range 20 {
			b.q.Kick(b.key)
		}
		if list, _ := b.list(); len(list) != 2 {
			t.Errorf("List() = %+v", list)
		}
		b.q.Spoke(b.key)
		wantSaid(t, c, "two")
		w.until("queue_message_sent")
		// The rest is answered in text.
		b.endCall(c)
		b.waitFor(b.key, "user completed: one\nuser completed: two\nuser completed: three\nassistant completed: ok\n")
		if len(c.spoken) != 0 {
			t.Errorf("%q was said after the call", testkit.Take(t, "what is spoken", c.spoken))
		}
	})
}

// TestCallAsks goes on speaking into a call whose question to the agent has failed for good.
func TestCallAsks(t *testing.T) {
	t.Parallel()
	p := &provider{answer: func(context.Context, string) error { return &llm.Error{Kind: llm.KindAuth, Message: "No key."} }}
	reported := make(chan struct{})
	b := prepare(t, persistencetest.SQLite(t), p, queue.Config{Enabled: true},
		observers{after: []chat.TurnObserver{observer(func() { close(reported) })}})
	c := b.call()
	c.set(true, nil)
	b.run()
	b.add("one")
	if _, err := b.turns.Turn(t.Context(), chat.TurnRequest{Key: b.key, Question: "What is it?", AskedBy: "call_1"}); err != nil {
		t.Fatal(err)
	}
	testkit.Take(t, "a report", reported)
	if _, pause := b.list(); pause != nil {
		t.Errorf("the queue is paused: %+v", pause)
	}
	c.set(false, nil)
	b.q.Spoke(b.key)
	wantSaid(t, c, "one")
}

// TestCallGone sends as text what the call could no longer say.
func TestCallGone(t *testing.T) {
	t.Parallel()
	b := prepare(t, persistencetest.SQLite(t), &provider{}, queue.Config{Every: 10 * time.Millisecond, Enabled: true})
	c := b.call()
	c.set(false, persistence.ErrNotFound)
	b.run()
	m := b.add("one")
	wantSaid(t, c, "one")
	b.endCall(c)
	b.waitFor(b.key, "user completed: one\nassistant completed: ok\n")
	if got, err := b.store.Queued.Message(t.Context(), b.key, m.ID); err != nil || got.MessageID != m.MessageID || got.Error != "" {
		t.Errorf("Message() = %+v, %v", got, err)
	}
}

// TestCallRefuses pauses the queue while the call refuses such a text, and says why, but not in the
// words of the database.
func TestCallRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"the call":     {fmt.Errorf("%w: bad_text", persistence.Invalid("text: too long")), "invalid text: too long."},
		"the database": {errOfDatabase, "invalid value: it cannot be stored."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, persistencetest.SQLite(t), &provider{}, queue.Config{Enabled: true})
			c := b.call()
			c.set(false, tt.err)
			b.run()
			w := b.watch(b.store)
			b.add("one")
			w.until("queue_paused too_long_for_call")
			b.wantPaused("The message waits for the end of the call: " + tt.want)
			b.endCall(c)
			b.waitFor(b.key, "user completed: one\nassistant completed: ok\n")
		})
	}
}
