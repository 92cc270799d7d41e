package persistence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// silent opens two stores: the first serves without heartbeats, the second takes others
// for dead at once.
func silent(t *testing.T) (a, b *persistence.Store, key thread.Key) {
	t.Helper()
	return silentAt(t, persistencetest.PostgresURL(t))
}

func silentAt(t *testing.T, url string) (a, b *persistence.Store, key thread.Key) {
	t.Helper()
	a = persistencetest.Open(t, url, persistence.Options{Instance: "a"})
	b = persistencetest.Open(t, url, persistence.Options{Instance: "b", DeadAfter: 1})
	persistence.Silence(a)
	for _, s := range []*persistence.Store{a, b} {
		must(t, s.Serve(t.Context()))
	}
	return a, b, persistencetest.NewThread(t, a, "anna", "")
}

// A process that was taken for dead can no longer write, is told so, and can start again.
func TestFenced(t *testing.T) {
	t.Parallel()
	a, b, key := silent(t)
	ctx := t.Context()
	must(t, a.Records.SaveCall(ctx, key, records.Call{ID: "c"}))
	answer := thread.Message{ID: "m", Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("half an")}}
	answer.Metadata.Status = thread.StatusInProgress
	if _, err := persistencetest.AppendMessage(ctx, a, key, answer); err != nil {
		t.Fatalf("AppendMessage() = %v", err)
	}
	fenced := a.Cluster.Fenced()
	select {
	case <-fenced:
		t.Error("Fenced() of a living process is closed")
	default:
	}
	if calls, err := b.Recover(ctx); err != nil || len(calls) != 1 {
		t.Fatalf("Recover() = %v, %v, want the call of the silent process", calls, err)
	}
	if err := b.Records.SaveCall(ctx, key, records.Call{ID: "next"}); err != nil {
		t.Errorf("SaveCall() of the next call = %v", err)
	}
	answer.Parts[0].Text = "half an answer"
	for what, err := range map[string]error{
		"UpdateMessage": second(persistencetest.UpdateMessage(ctx, a, key, answer)),
		"SaveCall":      a.Records.SaveCall(ctx, key, records.Call{ID: "c", Turns: 9}),
		"ClaimTurn":     a.Batch(ctx, key, func(w *persistence.Batch) error { return w.ClaimTurn("t") }),
		"Apply":         second(persistencetest.Apply(ctx, a, key, []persistence.Change{persistence.PutMessage{Message: answer}})),
	} {
		if !errors.Is(err, persistence.ErrFenced) {
			t.Errorf("%s() = %v, want ErrFenced", what, err)
		}
	}
	testkit.Take(t, "the fence", fenced)
	if m, err := b.Message(ctx, key, "m"); err != nil || m.Text() != "half an" || m.Metadata.Status != thread.StatusInterrupted {
		t.Errorf("Message() = %+v, %v", m, err)
	}
	must(t, a.Cluster.Rejoin(ctx))
	if a.Instance() == "a" {
		t.Error("Rejoin() keeps the instance")
	}
	select {
	case <-a.Cluster.Fenced():
		t.Error("Fenced() after Rejoin is closed")
	default:
	}
	// What it could not save is not lost.
	answer.Metadata.Status = thread.StatusInterrupted
	if _, err := persistencetest.Apply(ctx, a, key, []persistence.Change{persistence.PutMessage{Message: answer}}); err != nil {
		t.Errorf("Apply() = %v", err)
	}
	if m, err := b.Message(ctx, key, "m"); err != nil || m.Text() != "half an answer" {
		t.Errorf("Message() = %+v, %v", m, err)
	}
}

func second[T any](_ T, err error) error { return err }

// Writes run beside a recovery and follow each other without a pause: the fence waits for those that have begun, and
// none gets in after it.
func TestFenceWhileWriting(t *testing.T) {
	t.Parallel()
	a, b, key := silent(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	must(t, a.Records.SaveCall(ctx, key, records.Call{ID: "c"}))
	var writing sync.WaitGroup
	for range 8 {
		writing.Go(func() {
			for {
				m := thread.Message{Role: thread.RoleAssistant}
				m.Metadata.Status = thread.StatusInProgress
				if _, err := persistencetest.AppendMessage(ctx, a, key, m); err != nil && !errors.Is(err, persistence.ErrUnavailable) {
					if !errors.Is(err, persistence.ErrFenced) {
						t.Errorf("AppendMessage() = %v", err)
					}
					return
				}
			}
		})
	}
	calls, err := b.Recover(ctx)
	if err != nil || len(calls) != 1 {
		t.Errorf("Recover() = %v, %v", calls, err)
		stop()
	}
	writing.Wait()
	after := int64(0)
	for {
		messages, err := b.Messages(ctx, key, after, 1000)
		must(t, err)
		for _, m := range messages {
			if m.Metadata.Status == thread.StatusInProgress {
				t.Fatalf("message %d was written after the fence", m.Seq)
			}
			after = m.Seq
		}
		if len(messages) == 0 {
			return
		}
	}
}

// TestFenceIsNext begins a write while a fence waits for another one: it waits for the fence, and is refused.
func TestFenceIsNext(t *testing.T) {
	t.Parallel()
	url, ctx := persistencetest.PostgresURL(t), t.Context()
	a, b, key := silentAt(t, url)
	must(t, a.Records.SaveCall(ctx, key, records.Call{ID: "c"}))
	fenced, wrote := make(chan error, 1), make(chan error, 1)
	must(t, a.Batch(ctx, key, func(w *persistence.Batch) error {
		go func() { fenced <- second(b.Recover(ctx)) }()
		untilOneWaits(t, url)
		go func() { wrote <- second(a.CreateThread(ctx, "anna", "")) }()
		testkit.Eventually(t, "second write", func() bool { return len(wrote) > 0 || waiting(t, url) == "2" })
		return w.Records.SaveCall(records.Call{ID: "c"})
	}))
	must(t, testkit.Take(t, "the fence", fenced))
	if err := testkit.Take(t, "that it is written", wrote); !errors.Is(err, persistence.ErrFenced) {
		t.Errorf("CreateThread() = %v, want ErrFenced", err)
	}
}

// TestFrozen freezes a process in the middle of a transaction: the others do not wait for it, and when it wakes,
// nothing of the transaction is saved, and it may be repeated.
func TestFrozen(t *testing.T) {
	t.Parallel()
	a, b, key := silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, a.Records.SaveCall(ctx, key, records.Call{ID: "c"}))
	persistence.MaxIdle(a, 50*time.Millisecond)
	frozen, awake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	freeze := sync.OnceFunc(func() { close(frozen) })
	go func() {
		defer freeze() // on a busy machine the server may end the transaction even earlier
		done <- a.Batch(ctx, key, func(w *persistence.Batch) error {
			_, err := w.AppendMessage(thread.Message{ID: "m", Role: thread.RoleUser})
			freeze()
			<-awake
			return errors.Join(err, w.Records.SaveCall(records.Call{ID: "c", Turns: 1}))
		})
	}()
	testkit.Take(t, "that it is frozen", frozen)
	if calls, err := b.Recover(ctx); err != nil || len(calls) != 1 {
		t.Errorf("Recover() = %v, %v, want the call of the frozen process", calls, err)
	}
	_, err := persistencetest.AppendMessage(ctx, b, key, thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("next")}})
	if err != nil {
		t.Errorf("AppendMessage() = %v", err)
	}
	close(awake)
	if err := testkit.Take(t, "the end", done); !errors.Is(err, persistence.ErrUnavailable) {
		t.Errorf("Batch() = %v, want ErrUnavailable", err)
	}
	if got, err := b.Messages(ctx, key, 0, 0); err != nil || len(got) != 1 || got[0].Text() != "next" {
		t.Errorf("Messages() = %+v, %v", got, err)
	}
}

// A process is left alone even by an impatient one, as long as it sends a heartbeat between
// two checks.
func TestBeatIsSeen(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	a := persistencetest.Open(t, url, persistence.Options{})
	b := persistencetest.Open(t, url, persistence.Options{DeadAfter: 1})
	persistence.Silence(a)
	must(t, a.Serve(t.Context()))
	must(t, b.Cluster.Join(t.Context())) // and does not look by itself
	key := persistencetest.NewThread(t, a, "anna", "")
	must(t, a.Records.SaveCall(t.Context(), key, records.Call{ID: "c"}))
	for range 3 {
		must(t, persistence.Beat(context.WithoutCancel(t.Context()), a))
		if calls, err := b.Recover(t.Context()); err != nil || len(calls) != 0 {
			t.Errorf("Recover() = %v, %v, want nothing", calls, err)
		}
	}
}

// A process sends heartbeats while writers that wait for something have all its connections.
func TestBeatBesideWriters(t *testing.T) {
	t.Parallel()
	s := persistencetest.Open(t, persistencetest.PostgresURL(t), persistence.Options{MaxConns: 1})
	must(t, s.Serve(t.Context()))
	key := persistencetest.NewThread(t, s, "anna", "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, s.Batch(t.Context(), key, func(*persistence.Batch) error { return persistence.Beat(ctx, s) }))
}

// Writers do not end a process a second time while it starts again.
func TestRejoinBesideWriters(t *testing.T) {
	t.Parallel()
	s := persistencetest.Open(t, persistencetest.PostgresURL(t), persistence.Options{})
	must(t, s.Serve(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.CreateThread(ctx, "anna", "") // refused until the process has started again
			}
		})
	}
	defer writing.Wait()
	defer stop()
	for range 20 {
		must(t, s.Cluster.Rejoin(ctx))
		if _, err := s.CreateThread(ctx, "anna", ""); err != nil {
			t.Fatalf("CreateThread() after Rejoin() = %v", err)
		}
		select {
		case <-s.Cluster.Fenced():
			t.Fatal("Fenced() after Rejoin() is closed")
		default:
		}
	}
}

// TestRecoverBesideATurn: neither of a recovery and of the next turn on a thread of the dead process fails because the
// other one waits for it.
func TestRecoverBesideATurn(t *testing.T) {
	t.Parallel()
	url, ctx := persistencetest.PostgresURL(t), t.Context()
	dead, next := persistencetest.Open(t, url, persistence.Options{Instance: "dead"}), persistencetest.Open(t, url, persistence.Options{})
	row, err := next.CreateThread(ctx, "anna", "")
	must(t, err)
	key := thread.Key{Owner: "anna", Thread: row.ID}
	answer := thread.Message{ID: "m", Role: thread.RoleAssistant}
	answer.Metadata.Status = thread.StatusInProgress
	must(t, dead.Batch(ctx, key, func(b *persistence.Batch) error {
		return errors.Join(b.ClaimTurn("lost"), second(b.AppendMessage(answer)))
	}))
	claimed := make(chan error, 1)
	persistence.WhileRecovering(next, func() {
		go func() {
			claimed <- next.Batch(ctx, key, func(b *persistence.Batch) error { return b.ClaimTurn("next") })
		}()
		untilOneWaits(t, url)
	})
	must(t, next.Serve(ctx))
	if _, err := next.Recover(ctx); err != nil {
		t.Errorf("Recover() = %v", err)
	}
	if err := testkit.Take(t, "the claim", claimed); err != nil {
		t.Errorf("ClaimTurn() = %v", err)
	}
	if turn, err := next.RunningTurn(ctx, key); err != nil || turn.ID != "next" {
		t.Errorf("RunningTurn() = %+v, %v", turn, err)
	}
	if m, err := next.Message(ctx, key, "m"); err != nil || m.Metadata.Status != thread.StatusInterrupted {
		t.Errorf("Message() = %s, %v", m.Metadata.Status, err)
	}
}

// waiting returns how many transactions wait for others.
func waiting(t *testing.T, url string) string {
	t.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	return persistencetest.Rows(t, url, waiting)[0][0]
}

func untilOneWaits(t *testing.T, url string) {
	t.Helper()
	testkit.Eventually(t, "transaction that waits for another", func() bool { return waiting(t, url) == "1" })
}

// TestCallBesideItsSuccessor: neither of a live call, which saves something, and of another one that wants its thread
// fails because the other one waits for it.
func TestCallBesideItsSuccessor(t *testing.T) {
	t.Parallel()
	url, ctx := persistencetest.PostgresURL(t), t.Context()
	s := persistencetest.Open(t, url, persistence.Options{})
	row, err := s.CreateThread(ctx, "anna", "")
	must(t, err)
	key := thread.Key{Owner: "anna", Thread: row.ID}
	must(t, s.Records.SaveCall(ctx, key, records.Call{ID: "c"}))
	next := make(chan error, 1)
	if err := s.Batch(ctx, key, func(b *persistence.Batch) error {
		if err := b.Records.SaveCall(records.Call{ID: "c", Turns: 1}); err != nil {
			return err
		}
		go func() {
			next <- s.Batch(ctx, key, func(b *persistence.Batch) error {
				_, _, err := b.Records.LiveCall()
				return errors.Join(err, b.Records.SaveCall(records.Call{ID: "next"}))
			})
		}()
		untilOneWaits(t, url)
		return second(b.AppendMessage(thread.Message{Role: thread.RoleUser}))
	}); err != nil {
		t.Errorf("Batch() = %v", err)
	}
	if err := testkit.Take(t, "the next", next); !errors.Is(err, persistence.ErrConflict) {
		t.Errorf("Batch() of the next call = %v, want ErrConflict", err)
	}
}
