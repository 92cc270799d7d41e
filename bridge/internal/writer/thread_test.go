package writer

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/spool"
)

func TestMain(m *testing.M) { persistencetest.Main(m) }

// waiting is a committer with pending changes.
type waiting struct {
	pending atomic.Int64
	asked   chan struct{} // gets a value when somebody asks
	told    []string      // texts that were saved without it
}

func (w *waiting) Committed(_ persistence.Key, _ time.Time, changes []persistence.Change) {
	for _, c := range changes {
		w.told = append(w.told, c.(persistence.PutMessage).Message.Text())
	}
}

func (w *waiting) Commit(context.Context, persistence.Key, []persistence.Change) (spool.Result, error) {
	return spool.Result{Spooled: true}, nil
}

func (w *waiting) Full() bool { return false }

func (w *waiting) Pending() int {
	select {
	case w.asked <- struct{}{}:
	default:
	}
	return int(w.pending.Load())
}

// TestQueuedTextWaits saves a text that belongs to a transaction of the queue only once
// everything before it is in the database.
func TestQueuedTextWaits(t *testing.T) {
	t.Parallel()
	store := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{})
	key := persistencetest.NewThread(t, store, "ada", "")
	earlier := &waiting{asked: make(chan struct{}, 1)}
	earlier.pending.Store(1)
	sent := false
	queued := textOp("queued", "second", persistence.PlaceLast).(session.SaveMessage)
	queued.With = func(*persistence.Batch) error { sent = true; return nil }
	w := New(To(store, key, earlier), quiet(), func(persistence.Message) {})
	done := task.Go(func() { w.Run(t.Context()) })
	w.Push(queued)
	<-earlier.asked
	<-earlier.asked // a second try: the first did not save it
	first := textOp("first", "first", persistence.PlaceLast).(session.SaveMessage)
	if _, err := store.AppendMessage(t.Context(), key, first.Message); err != nil {
		t.Fatal(err)
	}
	earlier.pending.Store(0)
	w.Close()
	<-done
	messages, err := store.Messages(t.Context(), key, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		got = append(got, m.Text())
	}
	if !sent || !slices.Equal(got, []string{"first", "second"}) || !slices.Equal(earlier.told, []string{"second"}) {
		t.Errorf("sent %t, thread %q, told of %q", sent, got, earlier.told)
	}
}

// TestLossIsCounted counts a change that can never be saved and that no spool may keep, unless its thread was deleted.
func TestLossIsCounted(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"lost": false, "of a deleted thread": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost := 0
			store := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{OnLost: func(changes int) { lost += changes }})
			key := persistencetest.NewThread(t, store, "ada", "")
			if deleted {
				if err := store.DeleteThread(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			queued := textOp("queued", "Hello.", persistence.PlaceLast).(session.SaveMessage)
			queued.With = func(*persistence.Batch) error { return persistence.ErrConflict }
			w := New(To(store, key, &waiting{}), quiet(), func(persistence.Message) {})
			w.Push(queued)
			w.Close()
			w.Run(t.Context())
			if want := map[bool]int{false: 1}[deleted]; lost != want {
				t.Errorf("%d changes are counted as lost, want %d", lost, want)
			}
		})
	}
}
