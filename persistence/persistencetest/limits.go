package persistencetest

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// limits: an owner's use is counted across instances.
func (s suite) limits(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	must(t, b.store.Records.CheckThreads(ctx, "anna", 2))
	newThread(t, b.store, "anna")
	wantErr(t, "CheckThreads() at the limit", b.store.Records.CheckThreads(ctx, "anna", 2), persistence.ErrQuota)
	for owner, limit := range map[string]int{"anna": 0, "bert": 1} {
		if err := b.store.Records.CheckThreads(ctx, owner, limit); err != nil {
			t.Errorf("CheckThreads() of %s = %v", owner, err)
		}
	}

	if strings.HasPrefix(b.url, "postgres:") {
		s.limitsTogether(t, b)
		allTogether(t, b.store, Open(t, b.url, persistence.Options{}))
		return
	}
	allTogether(t, b.store)
	if wait, err := b.store.Admission.TakeRate(ctx, "x", 1); err != nil || wait != 0 {
		t.Errorf("TakeRate() with one instance = %v, %v", wait, err)
	}
}

// stored: what an owner stores is counted with every write.
func (s suite) stored(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	b.wantStored(t, "nothing")
	long, short := strings.Repeat("wörd \u2028 ", 4000), "word"
	m := b.append(t, text(thread.RoleUser, short))
	draft := thread.Message{ID: "growing", Role: thread.RoleAssistant, Metadata: thread.Metadata{Status: thread.StatusInProgress}}
	put := func(m thread.Message, place persistence.Placing) func() error {
		return func() error {
			_, err := Apply(ctx, b.store, b.key, []persistence.Change{persistence.PutMessage{Message: m, Place: persistence.Place{How: place}}})
			return err
		}
	}
	grown, other := text(thread.RoleAssistant, long), text(thread.RoleUser, long)
	grown.ID, other.ID = draft.ID, "other"
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"a message before others", func() error {
			_, err := InsertMessage(ctx, b.store, b.key, text(thread.RoleUser, long), "")
			return err
		}},
		{"a message that grows", func() error {
			m.Parts = []thread.Part{thread.TextPart(short), thread.TextPart(long)}
			_, err := UpdateMessage(ctx, b.store, b.key, m)
			return err
		}},
		{"a message that shrinks", func() error {
			m.Parts = m.Parts[:1]
			_, err := UpdateMessage(ctx, b.store, b.key, m)
			return err
		}},
		{"an answer in progress", put(draft, persistence.PlaceLast)},
		{"its draft", func() error {
			return b.store.Batch(ctx, b.key, func(w *persistence.Batch) error {
				return w.SaveDraft(persistence.Draft{MessageID: draft.ID, Text: short})
			})
		}},
		{"its end", put(grown, persistence.PlaceKept)},
		{"its end again, as a new message", put(grown, persistence.PlaceLast)},
		{"a missing message", put(other, persistence.PlaceKept)},
		{"a reset", func() error { return b.store.ResetThread(ctx, b.key) }},
		{"an image", func() error {
			_, err := b.store.Pictures.Save(ctx, b.key, pictures.Image{MediaType: "image/png", Width: 2, Height: 3, Data: make([]byte, 1000)}, 0)
			return err
		}},
	} {
		if err := step.run(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		b.wantStored(t, step.name)
	}
	must(t, b.store.DeleteThread(ctx, b.key))
	b.wantStored(t, "nothing any more")
}

// wantStored fails unless the owner has exactly room for what the tables hold.
func (b bundle) wantStored(t *testing.T, what string) {
	t.Helper()
	rows := Rows(t, b.url, `SELECT (SELECT coalesce(sum(octet_length(CAST(parts AS text))), 0) FROM messages) + (SELECT coalesce(sum(size), 0) FROM images)`)
	bytes, err := strconv.ParseInt(rows[0][0], 10, 64)
	must(t, err)
	if err := b.store.Records.CheckStored(t.Context(), b.key.Owner, bytes); bytes > 0 && err != nil {
		t.Errorf("%s: CheckStored() = %v, want room for %d", what, err, bytes)
	}
	if err := b.store.Records.CheckStored(t.Context(), b.key.Owner, bytes-1); bytes > 1 && !errors.Is(err, persistence.ErrQuota) {
		t.Errorf("%s: CheckStored() = %v, want no room for less than %d", what, err, bytes)
	}
	if err := b.store.Records.CheckStored(t.Context(), "bert", 1); err != nil {
		t.Errorf("%s: CheckStored() of another owner = %v", what, err)
	}
}

// limitsTogether counts on two instances.
func (s suite) limitsTogether(t *testing.T, b bundle) {
	ctx := t.Context()
	other := Open(t, b.url, persistence.Options{})
	both := []*persistence.Store{b.store, other}
	for i := range 6 {
		if wait, err := both[i%2].Admission.TakeRate(ctx, "texts of anna", 6); err != nil || wait != 0 {
			t.Fatalf("TakeRate() = %v, %v on call %d", wait, err, i+1)
		}
	}
	for _, store := range both {
		if wait, err := store.Admission.TakeRate(ctx, "texts of anna", 6); err != nil || wait <= 0 || wait > 10*time.Second {
			t.Errorf("TakeRate() when nothing is left = %v, %v", wait, err)
		}
		if wait, err := store.Admission.TakeRate(ctx, "texts of bert", 1000); err != nil || wait != 0 {
			t.Errorf("TakeRate() of another owner = %v, %v", wait, err)
		}
	}
	if wait, err := other.Admission.TakeRate(ctx, "texts of "+strings.Repeat("x", thread.MaxIDBytes), 1); err != nil || wait != 0 {
		t.Errorf("TakeRate() of the longest owner = %v, %v", wait, err)
	}
	wantErr(t, "TakeRate() of nothing", errOf(other.Admission.TakeRate(ctx, "", 1)), persistence.ErrInvalid)

}

// together does the same in many threads of an owner at one moment, on all instances, and returns
// those in which it succeeded: exactly as many as the limit allows.
func together(t *testing.T, limit int, stores []*persistence.Store, begin func(*persistence.Store, thread.Key) error) (began []thread.Key) {
	t.Helper()
	const each = 8
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range each * len(stores) {
		store, key := stores[i%len(stores)], newThread(t, stores[0], "carl")
		all.Go(func() {
			err := begin(store, key)
			if err != nil && !errors.Is(err, persistence.ErrQuota) {
				t.Errorf("begin: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				began = append(began, key)
			}
		})
	}
	all.Wait()
	if len(began) != limit {
		t.Fatalf("%d began, want %d", len(began), limit)
	}
	return began
}

// allTogether tests the limits that hold whatever happens at the same moment.
func allTogether(t *testing.T, stores ...*persistence.Store) {
	t.Helper()
	callsTogether(t, stores...)
	turnsTogether(t, stores...)
	imagesTogether(t, stores...)
}

// callsTogether begins many calls of an owner at one moment, on all instances: exactly as many as are
// allowed begin, and one that ends makes room for one.
func callsTogether(t *testing.T, stores ...*persistence.Store) {
	t.Helper()
	ctx := t.Context()
	const limit = 3
	begin := func(store *persistence.Store, key thread.Key, ended ...string) error {
		return store.Batch(ctx, key, func(w *persistence.Batch) error {
			if err := w.Records.RoomForCall(limit, ended...); err != nil {
				return err
			}
			return w.Records.SaveCall(records.Call{ID: "call-" + key.Thread})
		})
	}
	live := together(t, limit, stores, func(store *persistence.Store, key thread.Key) error { return begin(store, key) })
	last, other := stores[len(stores)-1], newThread(t, stores[0], "carl")
	if err := begin(last, live[0]); err != nil {
		t.Errorf("begin the thread's own call: %v", err) // as when saving it again
	}
	if err := begin(last, newThread(t, stores[0], "dora")); err != nil {
		t.Errorf("begin call of another owner: %v", err)
	}
	if err := begin(last, other, "call-"+live[0].Thread); err != nil {
		t.Errorf("begin call beside one whose end is not saved yet: %v", err)
	}
	for _, key := range []thread.Key{live[0], other} {
		must(t, stores[0].Records.SaveCall(ctx, key, records.Call{ID: "call-" + key.Thread, EndedAt: new(start), EndReason: "hangup"}))
	}
	if err := begin(last, newThread(t, stores[0], "carl")); err != nil {
		t.Errorf("begin call in the place of one that has ended: %v", err)
	}
	wantErr(t, "begin one more call", begin(stores[0], newThread(t, stores[0], "carl")), persistence.ErrQuota)
}

// turnsTogether is callsTogether for text turns.
func turnsTogether(t *testing.T, stores ...*persistence.Store) {
	t.Helper()
	ctx := t.Context()
	const limit = 2
	begin := func(store *persistence.Store, key thread.Key) error {
		return store.Batch(ctx, key, func(w *persistence.Batch) error {
			if err := w.Records.RoomForTurn(limit); err != nil {
				return err
			}
			return w.ClaimTurn("turn-" + key.Thread)
		})
	}
	running := together(t, limit, stores, begin)
	last := stores[len(stores)-1]
	wantErr(t, "begin a second turn on a thread", begin(last, running[0]), persistence.ErrConflict)
	if err := begin(last, newThread(t, stores[0], "dora")); err != nil {
		t.Errorf("begin turn of another owner: %v", err)
	}
	must(t, stores[0].Batch(ctx, running[0], func(w *persistence.Batch) error { return w.Apply(persistence.PutTurn{ID: "turn-" + running[0].Thread}) }))
	if err := begin(last, newThread(t, stores[0], "carl")); err != nil {
		t.Errorf("begin turn in the place of one that has ended: %v", err)
	}
	wantErr(t, "begin one more turn", begin(stores[0], newThread(t, stores[0], "carl")), persistence.ErrQuota)
}

// imagesTogether saves many images of an owner at one moment, on all instances.
func imagesTogether(t *testing.T, stores ...*persistence.Store) {
	t.Helper()
	const limit, size = 4, 1000
	together(t, limit, stores, func(store *persistence.Store, key thread.Key) error {
		image := pictures.Image{MediaType: "image/png", Width: 2, Height: 3, Data: make([]byte, size)}
		_, err := store.Pictures.Save(t.Context(), key, image, limit*size+size/2)
		return err
	})
}
