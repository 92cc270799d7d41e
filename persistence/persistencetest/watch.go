package persistencetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// watcher pulls a watch event by event.
type watcher struct {
	t    *testing.T
	next func() (persistence.Event, error, bool)
}

// WatchOwner watches all threads of an owner from now on.
func WatchOwner(t testing.TB, s *persistence.Store, owner string) *persistence.OwnerWatch {
	t.Helper()
	w, err := s.WatchOwner(t.Context(), owner, -1)
	must(t, err)
	return w
}

func startWatch(ctx context.Context, t *testing.T, store *persistence.Store, key thread.Key, after int64) watcher {
	t.Helper()
	next, stop := iter.Pull2(store.Watch(key).Events(ctx, after))
	t.Cleanup(stop)
	return watcher{t, next}
}

func (w watcher) event() persistence.Event {
	w.t.Helper()
	e, err, ok := w.next()
	if err != nil || !ok {
		w.t.Fatalf("Watch() gives %v, %v, want an event", err, ok)
	}
	return e
}

// message returns the next event, which must be a message.
func (w watcher) message() thread.Message {
	w.t.Helper()
	return decode(w.t, w.event())
}

func decode(t *testing.T, e persistence.Event) thread.Message {
	t.Helper()
	var data struct{ Message thread.Message }
	if err := json.Unmarshal(e.Data, &data); err != nil || e.Type != persistence.EventMessage || e.Seq == 0 {
		t.Fatalf("the event is %s %d %s (%v), want a message", e.Type, e.Seq, e.Data, err)
	}
	data.Message.Seq, data.Message.Revision = data.Message.Metadata.Seq, e.Seq
	return data.Message
}

// ends checks that the sequence ends with an error.
func (w watcher) ends(want error) {
	w.t.Helper()
	e, err, ok := w.next()
	if !ok || !errors.Is(err, want) {
		w.t.Errorf("Watch() gives %s, %v, want %v", e.Data, err, want)
	}
	if _, _, ok := w.next(); ok {
		w.t.Error("Watch() goes on after its error")
	}
}

func (s suite) watch(t *testing.T) {
	b := s.setup(t)
	var want []thread.Message
	for i := range 3 {
		want = append(want, b.append(t, text(thread.RoleUser, fmt.Sprint(i))))
	}
	w := startWatch(Within(t), t, b.store, b.key, 1)
	late := startWatch(Within(t), t, b.store, b.key, 3)
	got := []thread.Message{w.message()}
	for i := range 3 { // added during the replay
		want = append(want, b.append(t, text(thread.RoleUser, fmt.Sprint(3+i))))
	}
	for range 4 {
		got = append(got, w.message())
	}
	testkit.Equal(t, diff(want[1:], got), "", "Watch() after 1 differs")
	if m := late.message(); m.Text() != "3" {
		t.Errorf("Watch() after 3 begins with %q, want 3", m.Text())
	}
}

func (s suite) watchChange(t *testing.T) {
	b := s.setup(t)
	m := full()
	m.Metadata.Status = thread.StatusInProgress
	m = b.append(t, m)
	next := b.append(t, text(thread.RoleUser, "next"))
	w := startWatch(Within(t), t, b.store, b.key, 0)
	testkit.Equal(t, diff([]thread.Message{m, next}, []thread.Message{w.message(), w.message()}), "", "Watch() differs")
	m.Metadata.Status = thread.StatusCompleted
	m, err := UpdateMessage(t.Context(), b.store, b.key, m)
	must(t, err)
	testkit.Equal(t, diff(m, w.message()), "", "Watch() differs")
	// A returning client asks with the number of the last change it knows.
	again := startWatch(Within(t), t, b.store, b.key, next.Revision)
	testkit.Equal(t, diff(m, again.message()), "", "Watch() after %d differs", next.Revision)
}

// watchFromEnd: nothing is replayed, and everything after Watch is delivered.
func (s suite) watchFromEnd(t *testing.T) {
	b := s.setup(t)
	for _, after := range []int64{-1, 1, 1 << 60} {
		b.append(t, text(thread.RoleUser, "old"))
		if after == 1 {
			after, _ = b.store.LastSeq(t.Context(), b.key)
		}
		w := startWatch(Within(t), t, b.store, b.key, after)
		b.store.Publish(t.Context(), b.key, persistence.Event{Type: "hello"})
		if e := w.event(); e.Type != "hello" {
			t.Errorf("Watch() after %d begins with %s", after, e.Type)
		}
		b.append(t, text(thread.RoleUser, fmt.Sprint("new", after)))
		if m := w.message(); m.Text() != fmt.Sprint("new", after) {
			t.Errorf("Watch() after %d gives %q", after, m.Text())
		}
	}
	watch := b.store.Watch(b.key)
	if !b.store.Watched(b.key) {
		t.Error("Watched() = false, though somebody watches")
	}
	watch.Close()
	watch.Close() // has no effect
}

func (s suite) watchInserts(t *testing.T) {
	b := s.setup(t)
	first := b.append(t, text(thread.RoleUser, "a"))
	b.append(t, text(thread.RoleUser, "c"))
	b.append(t, text(thread.RoleUser, "d"))
	w := startWatch(Within(t), t, b.store, b.key, 2)
	if m := w.message(); m.Text() != "d" {
		t.Fatalf("Watch() gives %q, want d", m.Text())
	}
	b.insert(t, text(thread.RoleUser, "b"), first.ID)
	var got []thread.Message
	for range 3 {
		got = append(got, w.message())
	}
	// A moved message is delivered too, with its new number.
	if d := diff(b.all(t)[1:], got); words(got) != "b c d" || d != "" {
		t.Errorf("Watch() gives %s, which differs (-want +got):\n%s", words(got), d)
	}
}

// follow reads a watch up to the thread's last message, and returns the thread as the
// watcher knows it then.
func follow(ctx context.Context, t *testing.T, b bundle, after int64) []thread.Message {
	known := map[string]thread.Message{}
	last, ended := after, false
	for e, err := range b.store.Watch(b.key).Events(ctx, after) {
		if err != nil {
			t.Errorf("Watch() after %d = %v", after, err)
			return nil
		}
		m := decode(t, e)
		if m.Revision <= last {
			t.Errorf("Watch() gives %d after %d", m.Revision, last)
		}
		last = m.Revision
		known[m.ID] = m
		// The last message stays in place, but what moves it may still be on its way.
		ended = ended || m.ID == "end"
		if now, err := b.store.LastSeq(ctx, b.key); ended && err == nil && now == last {
			break
		}
	}
	return slices.SortedFunc(maps.Values(known), func(a, b thread.Message) int { return int(a.Seq - b.Seq) })
}

func (s suite) watchManyWriters(t *testing.T) {
	b := s.setup(t)
	root := b.append(t, text(thread.RoleUser, "root"))
	ctx := Within(t)
	var watchers, writers sync.WaitGroup
	seen := make([][]thread.Message, 4)
	for i := range seen {
		watchers.Go(func() { seen[i] = follow(ctx, t, b, 0) })
	}
	for w := range 8 {
		writers.Go(func() {
			for i := range 5 {
				m, err := InsertMessage(ctx, b.store, b.key, text(thread.RoleUser, fmt.Sprintf("%d-%d", w, i)), root.ID)
				if err == nil && i%2 == 0 {
					m.Parts[0].Text += "!"
					_, err = UpdateMessage(ctx, b.store, b.key, m)
				}
				if err != nil {
					t.Errorf("write = %v", err)
				}
			}
		})
	}
	writers.Wait()
	end := text(thread.RoleUser, "end")
	end.ID = "end"
	b.append(t, end)
	watchers.Wait()
	for i, got := range seen {
		testkit.Equal(t, diff(b.all(t), got), "", "watcher %d knows another thread", i)
	}
}

func (s suite) watchSlowly(t *testing.T) {
	b := s.setup(t)
	b.append(t, text(thread.RoleUser, "first"))
	w := startWatch(Within(t), t, b.store, b.key, 0)
	w.message()
	const n = 300                       // more than a watcher's buffer
	large := strings.Repeat("x", 6<<10) // still fits into a notification to other instances
	draft := json.RawMessage(`{"text":"` + large + `"}`)
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		_, err := w.AppendMessage(text(thread.RoleUser, large))
		return err
	})
	must(t, err)
	for i := range n {
		b.append(t, text(thread.RoleUser, fmt.Sprint(i)))
		b.store.Publish(t.Context(), b.key, persistence.Event{Type: "draft", Data: draft})
	}
	drafts, texts := 0, []string{}
	for len(texts) < n+1 || drafts < n {
		e := w.event()
		if e.Type == "draft" {
			drafts++
			continue
		}
		texts = append(texts, decode(t, e).Text())
	}
	for i, got := range texts[1:] {
		if got != fmt.Sprint(i) {
			t.Fatalf("message %d is %.20q", i, got)
		}
	}
}

// watchOwnerSlowly publishes more than fits into a watcher's buffer of 256 events and 1 MiB: it gets everything, in
// order.
func (s suite) watchOwnerSlowly(t *testing.T) {
	b := s.setup(t)
	for name, c := range map[string]struct{ events, bytes int }{
		"all fit":     {256, 10},
		"too many":    {700, 10},
		"too large":   {5, 600 << 10},
		"a large one": {1, 2 << 20},
	} {
		owner := thread.Key{Owner: name}
		watch := WatchOwner(t, b.store, name)
		publish := func(n int) {
			b.store.Publish(t.Context(), owner, persistence.Event{Type: "draft", Data: fmt.Appendf(nil, `[%d,"%s"]`, n, strings.Repeat("x", c.bytes))})
		}
		for n := range c.events {
			publish(n)
		}
		came := 0
		for e, err := range watch.Events(Within(t)) {
			var data []any
			if err != nil || json.Unmarshal(e.Data, &data) != nil || data[0] != float64(came) {
				t.Fatalf("%s: event %d is %.20s, %v", name, came, e.Data, err)
			}
			if came++; came == c.events { // and so does what comes later
				publish(came)
			}
			if came > c.events {
				break
			}
		}
	}
}

// watchOwnerLate has events about a thread arrive after later ones, as from a process that is slow to publish.
func (s suite) watchOwnerLate(t *testing.T) {
	b := s.setup(t)
	owner := thread.Key{Owner: b.key.Owner}
	watch, err := b.store.WatchOwner(t.Context(), owner.Owner, 0)
	must(t, err)
	next, stop := iter.Pull2(watch.Events(Within(t)))
	defer stop()
	want := func(kind persistence.EventType, title string) (at time.Time) {
		t.Helper()
		e, err, _ := next()
		var data struct {
			ThreadID string `json:"thread_id"`
			Thread   persistence.Thread
		}
		if err != nil || json.Unmarshal(e.Data, &data) != nil || e.Type != kind || data.ThreadID != b.key.Thread || data.Thread.Title != title {
			t.Fatalf("WatchOwner() gives %s %s, %v, want %s with the title %q", e.Type, e.Data, err, kind, title)
		}
		return data.Thread.UpdatedAt
	}
	late := func(kind persistence.EventType) {
		b.store.Publish(t.Context(), owner, persistence.Event{Type: kind, Data: fmt.Appendf(nil, `{"thread_id":%q,"thread":{"title":"old"}}`, b.key.Thread)})
	}
	want(persistence.EventThreadCreated, "a title")
	must(t, errOf(b.store.RenameThread(t.Context(), b.key, "new")))
	before := want(persistence.EventThreadUpdated, "new")
	late(persistence.EventThreadUpdated)
	want(persistence.EventThreadUpdated, "new")
	b.append(t, text(thread.RoleUser, "x"))
	if at := want(persistence.EventThreadUpdated, "new"); !at.After(before) {
		t.Errorf("a new message has updated the thread at %s, before at %s", at, before)
	}
	late(persistence.EventThreadDeleted) // it was made again
	late(persistence.EventThreadCreated)
	want(persistence.EventThreadCreated, "new")
	must(t, b.store.DeleteThread(t.Context(), b.key))
	want(persistence.EventThreadDeleted, "")
	late(persistence.EventThreadUpdated)
	late(persistence.EventThreadDeleted)
	want(persistence.EventThreadDeleted, "old") // without the thread, an event is passed on as it is
}

// watchOwnerAgain: a watch gets what happened after a number, also before it began and from a process that has died
// since.
func (s suite) watchOwnerAgain(t *testing.T) {
	b := s.serving(t)
	watch := func(after int64) (*persistence.OwnerWatch, func() persistence.Event) {
		t.Helper()
		w, err := b.store.WatchOwner(t.Context(), b.key.Owner, after)
		must(t, err)
		next, stop := iter.Pull2(w.Events(Within(t)))
		t.Cleanup(stop)
		return w, func() persistence.Event {
			t.Helper()
			e, err, _ := next()
			must(t, err)
			return e
		}
	}
	_, next := watch(0)
	created := next()
	if created.Type != persistence.EventThreadCreated || created.Seq == 0 {
		t.Fatalf("WatchOwner(0) begins with %+v", created)
	}
	tell := func(kind persistence.EventType) {
		t.Helper()
		must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
			return w.Tell(persistence.Event{Type: kind, Data: json.RawMessage(`{"call_id":"c"}`)})
		}))
	}
	newThread(t, b.store, "bert")
	tell("call_started")
	tell("of the thread only")
	failed := errors.New("no")
	wantErr(t, "Batch()", b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		return errors.Join(w.Tell(persistence.Event{Type: persistence.EventTurnFinished}), failed)
	}), failed)
	started := next()
	b = b.restart(t)
	tell(persistence.EventCallEnded)
	var last int64
	for _, after := range []int64{created.Seq, started.Seq} {
		w, next := watch(after)
		if w.Missed {
			t.Errorf("WatchOwner(%d) misses something", after)
		}
		for _, want := range []persistence.EventType{"call_started", persistence.EventCallEnded} {
			if after == started.Seq && want == "call_started" {
				continue
			}
			e := next()
			if data := `{"call_id":"c","thread_id":"` + b.key.Thread + `"}`; e.Type != want || string(e.Data) != data || e.Seq <= after {
				t.Errorf("WatchOwner(%d) gives %s %s %d, want %s %s", after, e.Type, e.Data, e.Seq, want, data)
			}
			last = e.Seq
		}
	}
	// What is no longer kept, or was never there, is said to be missed.
	Rows(t, b.url, fmt.Sprintf("DELETE FROM events WHERE id <= %d", started.Seq))
	for after, missed := range map[int64]bool{created.Seq: true, last - 1: false, last: false, last + 100: true} {
		if w, _ := watch(after); w.Missed != missed || w.Last < last {
			t.Errorf("WatchOwner(%d) misses something: %t, last %d", after, w.Missed, w.Last)
		}
	}
}

func (s suite) watchEnds(t *testing.T) {
	b := s.setup(t)
	b.append(t, text(thread.RoleUser, "x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := startWatch(ctx, t, b.store, b.key, 0)
	cancelled.message()
	cancel()
	cancelled.ends(context.Canceled)

	for range b.store.Watch(b.key).Events(t.Context(), 0) {
		break // the package's leak check would notice anything left over
	}

	gone := startWatch(Within(t), t, b.store, b.key, 0)
	gone.message()
	must(t, b.store.DeleteThread(t.Context(), b.key))
	gone.ends(persistence.ErrNotFound)

	b.key = newThread(t, b.store, "anna")
	b.append(t, text(thread.RoleUser, "x"))
	closed := startWatch(Within(t), t, b.store, b.key, 0)
	closed.message()
	must(t, b.store.Close())
	closed.ends(persistence.ErrClosed)
}

func (s suite) publish(t *testing.T) {
	b := s.setup(t)
	b.append(t, text(thread.RoleUser, "x"))
	w := startWatch(Within(t), t, b.store, b.key, 0)
	w.message()
	ctx := t.Context()
	b.store.Publish(ctx, thread.Key{Owner: "bert", Thread: b.key.Thread}, persistence.Event{Type: "stranger"})
	b.store.Publish(ctx, newThread(t, b.store, "anna"), persistence.Event{Type: "elsewhere"})
	b.store.Publish(ctx, b.key, persistence.Event{Type: "bad", Data: json.RawMessage(`{"x":`)})
	b.store.Publish(ctx, b.key, persistence.Event{Type: "empty"})
	b.store.Publish(ctx, b.key, persistence.Event{Type: "full", Data: json.RawMessage(`{"x":1}`), Seq: 99})
	b.append(t, text(thread.RoleUser, "y"))
	for _, want := range []persistence.Event{{Type: "empty", Data: json.RawMessage(`{}`)}, {Type: "full", Data: json.RawMessage(`{"x":1}`)}} {
		testkit.Equal(t, diff(want, w.event()), "", "the event differs")
	}
	if m := w.message(); m.Text() != "y" {
		t.Errorf("the message is %q, want y", m.Text())
	}
}
