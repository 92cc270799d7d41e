package persistencetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

// enqueue adds a text to the bundle's queue.
func (b bundle) enqueue(t *testing.T, words string) queued.Message {
	t.Helper()
	return b.enqueueAll(t, queued.Message{Text: words})
}

func (b bundle) enqueueAll(t *testing.T, m queued.Message) queued.Message {
	t.Helper()
	saved, added, err := b.store.Queued.Add(t.Context(), b.key, m, 0)
	if err != nil || !added {
		t.Fatalf("Add(%q) = %v, %v", m.Text, added, err)
	}
	return saved
}

// queued returns the waiting texts in order.
func (b bundle) queued(t *testing.T) string {
	t.Helper()
	list, _, err := b.store.Queued.List(t.Context(), b.key)
	must(t, err)
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Text)
	}
	return strings.Join(texts, " ")
}

func (b bundle) wantQueue(t *testing.T, want string) {
	t.Helper()
	testkit.Equal(t, b.queued(t), want, "the queue")
}

// claimQueued takes the next message; an empty one means that there is none.
func claimQueued(t *testing.T, store *persistence.Store, key thread.Key, o queued.ClaimOptions) (queued.Message, queued.Claim) {
	t.Helper()
	c, err := store.Queued.Claim(t.Context(), key, o)
	must(t, err)
	if c.Message == nil {
		return queued.Message{}, c
	}
	return *c.Message, c
}

// send makes a claimed message part of the thread.
func send(t *testing.T, store *persistence.Store, key thread.Key, m queued.Message) bool {
	t.Helper()
	var sent bool
	err := store.Batch(t.Context(), key, func(w *persistence.Batch) (err error) {
		if sent, err = w.Queued.Send(m.ID, m.Attempts, false); err != nil || !sent {
			return err
		}
		message := text(thread.RoleUser, m.Text)
		message.ID = m.MessageID
		_, err = w.AppendMessage(message)
		return err
	})
	if err != nil {
		t.Fatalf("send %q: %v", m.Text, err)
	}
	return sent
}

func answered(t *testing.T, b bundle, m queued.Message) (held bool, err error) {
	err = b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) (err error) {
		held, err = w.Queued.Answered(m.ID, m.Attempts)
		return err
	})
	return held, err
}

func (s suite) queue(t *testing.T) {
	b := s.setup(t)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	first := b.enqueueAll(t, queued.Message{
		Text: "erste Frage \U0001f600", ImageIDs: []string{"i-1", "i-2"}, ClientID: "tab", IdempotencyKey: "k1", ScheduledAt: &later,
	})
	var unix int64
	var random uint32
	if n, err := fmt.Sscanf(first.ID, "q-%d-%08x", &unix, &random); n != 2 || err != nil || unix == 0 {
		t.Errorf("the id is %q, want q-<unix>-<8 hex>", first.ID)
	}
	if first.MessageID == "" || first.State != queued.Waiting || first.Title != "" || first.QueuedAt.IsZero() {
		t.Errorf("Add() = %+v", first)
	}
	got, err := b.store.Queued.Message(t.Context(), b.key, first.ID)
	if d := diff(first, got); d != "" || err != nil {
		t.Errorf("Message() differs (-added +read), %v:\n%s", err, d)
	}
	again, added, err := b.store.Queued.Add(t.Context(), b.key, queued.Message{Text: first.Text, IdempotencyKey: "k1"}, 1)
	if err != nil || added || again.ID != first.ID {
		t.Errorf("Add() of the same key = %+v, %v, %v", again, added, err)
	}
	_, _, err = b.store.Queued.Add(t.Context(), b.key, queued.Message{Text: "another text", IdempotencyKey: "k1"}, 0)
	wantErr(t, "Add() of the key with another text", err, persistence.ErrConflict)
	must(t, b.store.Queued.SetTitle(t.Context(), b.key, first.ID, "Erste Frage"))
	second := b.enqueue(t, "second")
	if n, err := b.store.Queued.Length(t.Context(), b.key); n != 2 || err != nil {
		t.Errorf("Length() = %d, %v", n, err)
	}
	if n, err := b.store.Queued.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("Count() = %d, %v", n, err)
	}
	edited, err := b.store.Queued.Edit(t.Context(), b.key, first.ID, "changed")
	if err != nil || edited.Text != "changed" || edited.Title != "" || edited.MessageID != first.MessageID {
		t.Errorf("Edit() = %+v, %v", edited, err)
	}
	b.wantQueue(t, "second changed")
	if m, err := b.store.Queued.Remove(t.Context(), b.key, second.ID); err != nil || m.ID != second.ID {
		t.Errorf("Remove() = %+v, %v", m, err)
	}
	if n, err := b.store.Queued.Clear(t.Context(), b.key); n != 1 || err != nil {
		t.Errorf("Clear() = %d, %v", n, err)
	}
	b.wantQueue(t, "")
	wantErr(t, "Message() after Clear()", errOf(b.store.Queued.Message(t.Context(), b.key, first.ID)), persistence.ErrNotFound)
}

func (s suite) queueRefuses(t *testing.T) {
	b := s.setup(t)
	long := strings.Repeat("x", thread.MaxIDBytes+1)
	for name, m := range map[string]queued.Message{
		"empty":        {Text: " \n"},
		"of NULs":      {Text: "\x00\x00"},
		"too long":     {Text: strings.Repeat("x", queued.MaxBytes+1)},
		"many images":  {Text: "x", ImageIDs: make([]string, queued.MaxImageIDs+1)},
		"empty image":  {Text: "x", ImageIDs: []string{""}},
		"long image":   {Text: "x", ImageIDs: []string{long}},
		"long client":  {Text: "x", ClientID: long},
		"long key":     {Text: "x", IdempotencyKey: long},
		"broken key":   {Text: "x", IdempotencyKey: "\xff"},
		"long ago":     {Text: "x", ScheduledAt: new(time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 14*60*60)))},
		"far schedule": {Text: "x", ScheduledAt: new(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC))},
	} {
		_, _, err := b.store.Queued.Add(t.Context(), b.key, m, 0)
		wantErr(t, "Add() of "+name, err, persistence.ErrInvalid)
	}
	hostile := b.enqueue(t, "nul \x00 and \xff bytes")
	testkit.Equal(t, hostile.Text, "nul  and \ufffd bytes", "the text")
	stranger := thread.Key{Owner: "berta", Thread: b.key.Thread}
	_, _, err := b.store.Queued.Add(t.Context(), stranger, queued.Message{Text: "x"}, 0)
	wantErr(t, "Add() of a stranger", err, persistence.ErrNotFound)
	_, _, err = b.store.Queued.List(t.Context(), stranger)
	wantErr(t, "Queue() of a stranger", err, persistence.ErrNotFound)
	for _, key := range []thread.Key{stranger, newThread(t, b.store, "anna")} {
		wantErr(t, "Message() elsewhere", errOf(b.store.Queued.Message(t.Context(), key, hostile.ID)), persistence.ErrNotFound)
		wantErr(t, "Remove() elsewhere", errOf(b.store.Queued.Remove(t.Context(), key, hostile.ID)), persistence.ErrNotFound)
		wantErr(t, "Edit() elsewhere", errOf(b.store.Queued.Edit(t.Context(), key, hostile.ID, "y")), persistence.ErrNotFound)
		wantErr(t, "Move() elsewhere", errOf(b.store.Queued.Move(t.Context(), key, hostile.ID, true)), persistence.ErrNotFound)
		wantErr(t, "SetTitle() elsewhere", b.store.Queued.SetTitle(t.Context(), key, hostile.ID, "y"), persistence.ErrNotFound)
		wantErr(t, "Claim() elsewhere", errOf(b.store.Queued.Claim(t.Context(), key, queued.ClaimOptions{ID: hostile.ID})), persistence.ErrNotFound)
	}
	if n, err := b.store.Queued.Length(t.Context(), stranger); n != 0 || err != nil {
		t.Errorf("Length() of a stranger = %d, %v", n, err)
	}
	for _, id := range []string{"", "\x00", long} {
		wantErr(t, fmt.Sprintf("SetTitle() of %.9q", id), b.store.Queued.SetTitle(t.Context(), b.key, id, "y"), persistence.ErrNotFound)
	}
	err = b.store.Queued.SetTitle(t.Context(), b.key, hostile.ID, strings.Repeat("x", 1001))
	wantErr(t, "SetTitle() with a long title", err, persistence.ErrInvalid)
	wantErr(t, "Edit() to nothing", errOf(b.store.Queued.Edit(t.Context(), b.key, hostile.ID, "")), persistence.ErrInvalid)
	b.wantQueue(t, hostile.Text)
}

func (s suite) queueOrder(t *testing.T) {
	b := s.setup(t)
	ids := map[string]string{}
	add := func(words string, at time.Duration) {
		m := queued.Message{Text: words}
		if at != 0 {
			m.ScheduledAt = new(time.Now().Add(at))
		}
		ids[words] = b.enqueueAll(t, m).ID
	}
	add("tomorrow", 24*time.Hour)
	add("overdue", -time.Minute)
	add("a", 0)
	add("long-overdue", -time.Hour)
	add("b", 0)
	add("c", 0)
	b.wantQueue(t, "a b c long-overdue overdue tomorrow")
	for _, step := range []struct {
		words string
		up    bool
		moved bool
		want  string
	}{
		{"c", true, true, "a c b"},
		{"c", true, true, "c a b"},
		{"c", true, false, "c a b"},
		{"c", false, true, "a c b"},
		{"b", false, false, "a c b"},
		{"tomorrow", true, false, "a c b"},
	} {
		moved, err := b.store.Queued.Move(t.Context(), b.key, ids[step.words], step.up)
		if err != nil || moved != step.moved {
			t.Errorf("MoveQueued(%s, %v) = %v, %v, want %v", step.words, step.up, moved, err, step.moved)
		}
		b.wantQueue(t, step.want+" long-overdue overdue tomorrow")
	}
	for _, want := range []string{"a", "c", "b", "long-overdue", "overdue", ""} {
		m, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{})
		if m.Text != want {
			t.Fatalf("Claim() = %q, want %q", m.Text, want)
		}
		if want != "" && !send(t, b.store, b.key, m) {
			t.Fatalf("SendQueued(%s) = false", want)
		}
	}
	b.wantQueue(t, "tomorrow")
	if got, want := words(b.all(t)), "a c b long-overdue overdue"; got != want {
		t.Errorf("the thread is %q, want %q", got, want)
	}
}

// concurrentAdds has 50 clients on two processes add to one queue.
func (s suite) concurrentAdds(t *testing.T) {
	const clients, each, limit = 50, 4, 77
	b := s.setup(t)
	stores := []*persistence.Store{b.store, Open(t, b.url, persistence.Options{})}
	var adding sync.WaitGroup
	var added, full atomic.Int64
	for c := range clients {
		adding.Go(func() {
			for n := range each {
				m := queued.Message{Text: fmt.Sprintf("%02d-%d", c, n)}
				switch _, _, err := stores[c%2].Queued.Add(t.Context(), b.key, m, limit); {
				case err == nil:
					added.Add(1)
				case errors.Is(err, queued.ErrFull):
					full.Add(1)
				default:
					t.Errorf("Add() = %v", err)
				}
				if n, err := stores[c%2].Queued.Length(t.Context(), b.key); n > limit || err != nil {
					t.Errorf("Length() = %d, %v: the limit is %d", n, err, limit)
				}
			}
		})
	}
	adding.Wait()
	if added.Load() != limit || full.Load() != clients*each-limit {
		t.Errorf("%d messages added and %d refused, want %d and %d", added.Load(), full.Load(), limit, clients*each-limit)
	}
	// Each client's messages stay in order.
	last := map[string]string{}
	for words := range strings.FieldsSeq(b.queued(t)) {
		client, n, _ := strings.Cut(words, "-")
		if n <= last[client] {
			t.Errorf("client %s: %s stands after %s", client, n, last[client])
		}
		last[client] = n
	}
}

// concurrentSenders has two processes empty one queue.
func (s suite) concurrentSenders(t *testing.T) {
	const messages = 40
	b := s.setup(t)
	var want []string
	for n := range messages {
		want = append(want, b.enqueue(t, fmt.Sprintf("m%02d", n)).Text)
	}
	stores := []*persistence.Store{b.store, Open(t, b.url, persistence.Options{})}
	ctx := Within(t)
	var sending sync.WaitGroup
	var sent atomic.Int64
	for _, store := range stores {
		sending.Go(func() {
			for sent.Load() < messages && ctx.Err() == nil {
				m, _ := claimQueued(t, store, b.key, queued.ClaimOptions{})
				if m.ID != "" && send(t, store, b.key, m) {
					sent.Add(1)
				}
			}
		})
	}
	sending.Wait()
	testkit.Equal(t, words(b.all(t)), strings.Join(want, " "), "the thread")
}

func (s suite) dueQueues(t *testing.T) {
	b := s.setup(t)
	var keys []thread.Key
	for _, owner := range []string{"anna", "berta", "clara"} {
		key := newThread(t, b.store, owner)
		keys = append(keys, key)
		if _, _, err := b.store.Queued.Add(t.Context(), key, queued.Message{Text: "x"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	// The most recently used comes first; a message for later does not count.
	if _, err := AppendMessage(t.Context(), b.store, keys[1], text(thread.RoleUser, "hello")); err != nil {
		t.Fatal(err)
	}
	b.enqueueAll(t, queued.Message{Text: "later", ScheduledAt: new(time.Now().Add(time.Hour))})
	got, err := b.store.Queued.Due(t.Context(), 10)
	if d := diff([]thread.Key{keys[1], keys[2], keys[0]}, got); d != "" || err != nil {
		t.Errorf("Due() = %v (-want +got):\n%s", err, d)
	}
	if got, err := b.store.Queued.Due(t.Context(), 1); len(got) != 1 || err != nil {
		t.Errorf("DueQueues(1) = %v, %v", got, err)
	}
	wantErr(t, "DueQueues(0)", errOf(b.store.Queued.Due(t.Context(), 0)), persistence.ErrInvalid)
	// Neither a queue with a message that another process is sending, nor one whose thread is busy.
	other := Open(t, b.url, persistence.Options{})
	claimQueued(t, b.store, keys[0], queued.ClaimOptions{})
	must(t, claim(t, b.store, keys[1], "turn"))
	if got, err := other.Queued.Due(t.Context(), 10); len(got) != 1 || got[0] != keys[2] || err != nil {
		t.Errorf("Due() = %v, %v", got, err)
	}
	must(t, b.store.DeleteThread(t.Context(), keys[2]))
	if got, err := other.Queued.Due(t.Context(), 10); len(got) != 0 || err != nil {
		t.Errorf("Due() = %v, %v", got, err)
	}
	// The process that has claimed it may have given it up.
	if got, err := b.store.Queued.Due(t.Context(), 10); len(got) != 1 || got[0] != keys[0] || err != nil {
		t.Errorf("Due() of what this process has claimed = %v, %v", got, err)
	}
}

// recoverQueues starts after a process that died while sending.
func (s suite) recoverQueues(t *testing.T) {
	b := s.serving(t)
	m := b.enqueue(t, "one")
	claimQueued(t, b.store, b.key, queued.ClaimOptions{})
	b = b.restart(t)
	_, err := b.store.Recover(t.Context())
	must(t, err)
	if got, _ := claimQueued(t, b.store, b.key, queued.ClaimOptions{}); got.ID != m.ID || got.Attempts != 2 {
		t.Errorf("Claim() = %+v", got)
	}
}
