package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/thread"
)

// When the database cannot keep up, events are dropped and counted, but each thread's last
// hint is kept, and each owner whose events are dropped gets one.
func TestOutboxOverflow(t *testing.T) {
	t.Parallel()
	dropped := 0
	o := newOutbox("me", slog.New(slog.DiscardHandler), func() { dropped++ }, nil)
	draft := func(n int) note {
		return note{Type: "draft", Key: thread.Key{Owner: "a", Thread: "t"}, Data: fmt.Appendf(nil, "%d", n)}
	}
	for i := range maxNotes + 10 {
		o.put(draft(i))
	}
	for i := range 30 {
		o.put(note{Type: "message", Key: thread.Key{Owner: "a", Thread: fmt.Sprint("thread", i%3)}, Seq: int64(i)})
		o.put(note{Type: "thread_updated", Key: ownerKey("a"), Data: json.RawMessage("1")})
	}
	if dropped != 40 {
		t.Errorf("%d events were dropped, want 10 drafts and 30 of the owner", dropped)
	}
	var sent []note
	for p := o.take(); len(p) > 0; p = o.take() {
		if len(p) > notesPerSend {
			t.Fatalf("a batch of %d notes", len(p))
		}
		for _, l := range p {
			var n note
			if err := json.Unmarshal([]byte(l.payload), &n); err != nil {
				t.Fatal(err)
			}
			if n.Count != int64(len(sent)+1) || n.Instance != "me" {
				t.Fatalf("note %d is %s", len(sent), l.payload)
			}
			sent = append(sent, n)
		}
	}
	if len(sent) != maxNotes+4 {
		t.Fatalf("%d notes, want %d drafts and 4 hints", len(sent), maxNotes)
	}
	for _, n := range sent[maxNotes:] {
		if n.Seq < 27 && n.Type != noteMissed {
			t.Errorf("the hint for %s has number %d, want the last one", n.Key.Thread, n.Seq)
		}
	}
}

// What the database refuses is counted; what comes later is sent.
func TestOutboxFailure(t *testing.T) {
	t.Parallel()
	dropped := make(chan struct{}, 10)
	sent := make(chan []letter)
	fail := true
	o := newOutbox("me", slog.New(slog.DiscardHandler), func() { dropped <- struct{}{} }, func(_ context.Context, p []letter) error {
		if fail {
			fail = false
			return errors.New("no")
		}
		sent <- p
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.run(ctx) }()
	o.put(note{Type: "lost", Data: json.RawMessage("1")})
	<-dropped
	o.put(note{Type: "large", Data: json.RawMessage(`"` + strings.Repeat("x", maxPayload) + `"`)})
	<-dropped
	o.put(note{Type: "kept", Data: json.RawMessage("1")})
	if p := <-sent; len(p) != 1 || !strings.Contains(p[0].payload, `"kept"`) {
		t.Errorf("sent %q", p)
	}
	cancel()
	<-done
}

// When the database is away, an owner's watchers elsewhere are told later that they missed something.
func TestOutboxRemembersOwners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		var sent []string
		dropped := 0
		o := newOutbox("me", slog.New(slog.DiscardHandler), func() { dropped++ }, func(_ context.Context, letters []letter) error {
			if !back.Load() {
				return errors.New("away")
			}
			for _, l := range letters {
				sent = append(sent, l.kind)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go o.run(ctx)
		for range 3 {
			o.put(note{Type: "thread_updated", Key: ownerKey("a"), Data: json.RawMessage("1")})
			o.put(note{Type: "draft", Key: thread.Key{Owner: "a", Thread: "t"}, Data: json.RawMessage("1")})
			synctest.Wait()
		}
		time.Sleep(10 * sendAgain)
		synctest.Wait()
		back.Store(true)
		time.Sleep(10 * sendAgain)
		synctest.Wait()
		if dropped != 6 || !slices.Equal(sent, []string{noteMissed}) {
			t.Errorf("%d events were dropped, and %q sent", dropped, sent)
		}
	})
}

// What could not be sent because the database was unavailable is sent later, in order and before what
// comes after it, except text that is late then.
func TestOutboxTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries, dropped := 0, 0
		var sent []string
		o := newOutbox("me", slog.New(slog.DiscardHandler), func() { dropped++ }, func(_ context.Context, letters []letter) error {
			if tries++; tries < 4 {
				return fmt.Errorf("%w: it restarts", ErrUnavailable)
			}
			for _, l := range letters {
				sent = append(sent, l.kind)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go o.run(ctx)
		for _, kind := range []string{"turn_started", string(EventMessageDelta), "turn_finished", "call_ended"} {
			o.put(note{Type: kind, Key: thread.Key{Owner: "a", Thread: "t"}, Data: json.RawMessage("1")})
			synctest.Wait()
		}
		time.Sleep(10 * sendAgain)
		synctest.Wait()
		if want := []string{"turn_started", "turn_finished", "call_ended"}; dropped != 1 || !slices.Equal(sent, want) {
			t.Errorf("%d events were dropped, and %q sent, want %q", dropped, sent, want)
		}
	})
}

// At its end a process sends what is waiting, but does not wait for long.
func TestOutboxEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		each  time.Duration // how long it takes to send
		took  time.Duration
		count int
	}{
		"the rest is sent":     {time.Second, 2 * time.Second, 3},
		"the database is slow": {time.Hour, 3 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				o := newOutbox("me", slog.New(slog.DiscardHandler), func() {}, func(ctx context.Context, letters []letter) error {
					select {
					case <-time.After(c.each):
						sent.Add(int64(len(letters)))
					case <-ctx.Done():
					}
					return ctx.Err()
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go o.run(ctx)
				o.put(note{Type: "draft", Key: thread.Key{Owner: "a", Thread: "t"}, Data: json.RawMessage("1")})
				synctest.Wait() // it is being sent
				o.put(note{Type: "draft", Key: thread.Key{Owner: "a", Thread: "t"}, Data: json.RawMessage("2")})
				o.put(note{Type: "thread_updated", Key: ownerKey("a"), Data: json.RawMessage("3")})
				began := time.Now()
				o.end(3 * time.Second)
				if took := time.Since(began); took != c.took || int(sent.Load()) != c.count {
					t.Errorf("%d notes were sent in %v, want %d in %v", sent.Load(), took, c.count, c.took)
				}
			})
		})
	}
}

// An owner's watcher has no table to read, so it is told only of what it may have missed.
func TestOwnerIsBehind(t *testing.T) {
	t.Parallel()
	h := newHub()
	w := h.add(ownerKey("a"))
	for name, c := range map[string]struct {
		hint   func()
		behind bool
	}{
		"its shard is listened to":  {func() { h.hintShards(^shardSet(0)) }, false},
		"an event was not sent":     {func() { h.hint(ownerKey("a")) }, true},
		"the connection was broken": {h.hintAll, true},
	} {
		c.hint()
		if _, behind, _, _ := w.take(); behind != c.behind {
			t.Errorf("%s: behind is %t", name, behind)
		}
	}
}

// TestDeltasGiveWay: a slow watcher loses text that the table has, not what happened.
func TestDeltasGiveWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ deltas, bytes int }{"too many": {maxQueued, 10}, "too large": {4, maxQueuedBytes / 4}} {
		h, key := newHub(), thread.Key{Owner: "a", Thread: "t"}
		w := h.add(key)
		data := json.RawMessage(`"` + strings.Repeat("x", c.bytes-2) + `"`)
		h.draft(key, Event{Type: "turn_started", Data: json.RawMessage("{}")})
		for range c.deltas {
			h.draft(key, Event{Type: EventMessageDelta, Data: data})
		}
		for _, kind := range []EventType{"turn_finished", "queue_updated"} {
			h.draft(key, Event{Type: kind, Data: data})
		}
		var got []EventType
		items, _, _, _ := w.take()
		for _, i := range items {
			got = append(got, i.draft.Type)
		}
		if want := []EventType{"turn_started", "turn_finished", "queue_updated"}; !slices.Equal(got, want) || h.dropped.Load() != int64(c.deltas) {
			t.Errorf("%s: the watcher gets %q and %d events were dropped, want %q and %d", name, got, h.dropped.Load(), want, c.deltas)
		}
	}
}
