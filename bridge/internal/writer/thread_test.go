package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
)

func TestMain(m *testing.M) { persistencetest.Main(m) }

// awayStore is a database that takes no changes of calls while away is set.
type awayStore struct {
	*persistence.Store

	away atomic.Bool
}

func (s *awayStore) ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	if s.away.Load() {
		return nil, errors.New("database is away")
	}
	return s.Store.ApplyAll(ctx, groups)
}

// TestQueuedTextWithoutDatabase loses the database right before a queued text is saved, and the process after three more
// turns. What was said is in its spool, from where the next start brings it into the thread, in order; the queued message
// is sent once, also if another process has claimed it meanwhile.
func TestQueuedTextWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, claimedAgain := range map[string]bool{"claimed": false, "claimed again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
				queuedWithoutDatabase(t, open(t), claimedAgain)
			})
		})
	}
}

func queuedWithoutDatabase(t *testing.T, store *persistence.Store, claimedAgain bool) {
	key := persistencetest.NewThread(t, store, "ada", "")
	queued, _, err := store.Enqueue(t.Context(), key, persistence.QueuedMessage{Text: "queued"}, 0)
	must(t, err)
	lease := persistence.ClaimOptions{Lease: time.Hour}
	if claimedAgain {
		lease.Lease = -time.Second // it is over at once
	}
	claim, err := store.ClaimQueued(t.Context(), key, lease)
	must(t, err)

	db, dir := &awayStore{Store: store}, t.TempDir()
	db.away.Store(true)
	spooling, err := spool.New(spool.Config{Store: db, Dir: dir})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- spooling.Run(ctx) }()
	w := New(To(store, key, spooling), quiet(), func(thread.Message) {})
	done := task.Go(func() {
		if lost := w.Run(context.Background()); lost != 0 {
			t.Errorf("%d changes are lost", lost)
		}
	})
	text := textOp(claim.Message.MessageID, "queued", persistence.PlaceLast).(session.SaveMessage)
	text.Queued = queued.ID
	w.Push(text)
	want := []string{"queued"}
	for i := range 3 {
		turn := fmt.Sprint("turn ", i)
		w.Push(textOp(turn, turn, persistence.PlaceLast))
		want = append(want, turn)
	}
	w.Close()
	<-done
	cancel() // the process ends while the database is away
	must(t, <-ran)

	again := claim
	if claimedAgain {
		again, err = store.ClaimQueued(t.Context(), key, persistence.ClaimOptions{Lease: time.Hour})
		must(t, err)
	}
	for range 2 { // the second start finds nothing
		must(t, spool.Recover(t.Context(), dir, store, quiet()))
	}
	messages, err := store.Messages(t.Context(), key, 0, 10)
	must(t, err)
	var got []string
	for _, m := range messages {
		got = append(got, m.Text())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the thread is %q, want %q", got, want)
	}
	if row, err := store.QueuedMessage(t.Context(), key, queued.ID); err != nil || row.State != persistence.QueueSent || row.SentAt == nil {
		t.Errorf("QueuedMessage() = %+v, %v", row, err)
	}
	must(t, store.Batch(t.Context(), key, func(b *persistence.Batch) error {
		if held, err := b.SendQueued(queued.ID, again.Message.Attempts, true); held || err != nil {
			t.Errorf("SendQueued() of what is sent = %v, %v", held, err)
		}
		return nil
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
