package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/admission"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

// Behind PgBouncer in transaction mode there are no prepared statements and no
// notifications; everything works without them.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	pooler := persistencetest.NewPooler(t)
	persistencetest.Run(t, pooler.URL, pooler.EmptyURL)
}

// TestBeginAtOnce begins three processes at the same moment on an empty database.
func TestBeginAtOnce(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"direct": persistencetest.EmptyPostgresURL(t), "behind a pooler": persistencetest.NewPooler(t).EmptyURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var beginning sync.WaitGroup
			for range 3 {
				s := persistencetest.Open(t, url, persistence.Options{NoMigrate: true})
				beginning.Go(func() {
					if err := s.Serve(t.Context()); err != nil {
						t.Errorf("Serve() = %v", err)
						return
					}
					if _, err := s.Recover(t.Context()); err != nil {
						t.Errorf("Recover() = %v", err)
					}
				})
			}
			beginning.Wait()
		})
	}
}

// Without notifications, what others do is found by polling.
func TestWithoutListen(t *testing.T) {
	t.Parallel()
	dsn := persistencetest.PostgresURL(t)
	a := persistencetest.Open(t, dsn, persistence.Options{NoListen: true})
	b := persistencetest.Open(t, dsn, persistence.Options{NoListen: true})
	for _, s := range []*persistence.Store{a, b} {
		must(t, s.Serve(t.Context()))
	}
	key := persistencetest.NewThread(t, a, "anna", "")
	there := pull(t, b, key)
	say(t, a, key, "1")
	want(t, there, "message 1")
	say(t, a, key, "2")
	want(t, there, "message 2")
	untilWatched(t, a, b, key)
	for n := range 3 {
		a.Publish(t.Context(), key, persistence.Event{Type: "draft", Data: fmt.Appendf(nil, "%d", n)})
	}
	want(t, there, "draft 0", "draft 1", "draft 2")
	must(t, a.DeleteThread(t.Context(), key))
	want(t, there, "error watch thread: not found")
}

// TestWithAndWithoutListen: a process that gets notifications and one that polls hear each other, under every id
// that they have.
func TestWithAndWithoutListen(t *testing.T) {
	t.Parallel()
	dsn := persistencetest.PostgresURL(t)
	listens, reads := persistencetest.Open(t, dsn, persistence.Options{}), persistencetest.Open(t, dsn, persistence.Options{NoListen: true})
	for _, s := range []*persistence.Store{listens, reads} {
		must(t, s.Serve(t.Context()))
	}
	key, owner := persistencetest.NewThread(t, listens, "anna", ""), thread.Key{Owner: "anna"}
	for range 2 {
		for from, to := range map[*persistence.Store]*persistence.Store{listens: reads, reads: listens} {
			untilWatched(t, from, to, key)
			untilMarked(t, from, owner, persistencetest.WatchOwner(t, to, "anna").Events)
		}
		// The old ids are gone.
		for _, s := range []*persistence.Store{listens, reads} {
			must(t, s.Cluster.Rejoin(t.Context()))
		}
		persistencetest.Rows(t, dsn, "UPDATE instances SET ended_at = now() WHERE id NOT IN ('"+listens.Instance()+"', '"+reads.Instance()+"')")
	}
}

// TestAnnounce: others learn where a process is, also under the id with which it rejoins.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	must(t, s.Serve(t.Context()))
	s.Cluster.Announce(t.Context(), func() cluster.Address { return cluster.Address{URL: "http://10.0.0.5:8080", Certificate: "ab"} })
	for range 2 {
		got := persistencetest.Rows(t, url, "SELECT url || ' ' || certificate FROM instances WHERE id = '"+s.Instance()+"'")
		testkit.Equal(t, got, [][]string{{"http://10.0.0.5:8080 ab"}}, "the row of the process")
		must(t, s.Cluster.Rejoin(t.Context()))
	}
}

// The first watcher of an owner on a process misses nothing, although no other process knows of it.
func TestFirstWatcherOfAnOwner(t *testing.T) {
	t.Parallel()
	for name, noListen := range map[string]bool{"notified": false, "by polling": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := persistencetest.PostgresURL(t)
			a := persistencetest.Open(t, dsn, persistence.Options{NoListen: noListen})
			b := persistencetest.Open(t, dsn, persistence.Options{NoListen: noListen})
			for _, s := range []*persistence.Store{a, b} {
				must(t, s.Serve(t.Context()))
			}
			key := persistencetest.NewThread(t, a, "anna", "")
			untilWatched(t, a, b, key) // they know of each other
			watch := persistencetest.WatchOwner(t, b, "anna")
			if _, err := a.RenameThread(t.Context(), key, "New"); err != nil {
				t.Fatalf("RenameThread() = %v", err)
			}
			tell(t, a, key, persistence.Event{Type: persistence.EventTurnFinished})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var got []persistence.EventType
			for e, err := range watch.Events(ctx) {
				if err != nil {
					t.Fatalf("WatchOwner() = %v after %v", err, got)
				}
				if got = append(got, e.Type); e.Type == persistence.EventTurnFinished {
					break
				}
			}
			testkit.Equal(t, got, []persistence.EventType{persistence.EventThreadUpdated, persistence.EventTurnFinished}, "events")
		})
	}
}

// Nor does the first watcher of a thread on a process that polls.
func TestFirstWatcherWithoutListen(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	a := persistencetest.Open(t, url, persistence.Options{})
	b := persistencetest.Open(t, url, persistence.Options{NoListen: true})
	must(t, errors.Join(a.Serve(t.Context()), b.Serve(t.Context())))
	untilWatched(t, a, b, persistencetest.NewThread(t, a, "anna", ""))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 { // of several shards
		key := persistencetest.NewThread(t, a, "anna", "")
		watch := b.Watch(key)
		a.Publish(ctx, key, persistence.Event{Type: persistence.EventTurnFinished})
		for e, err := range watch.Events(ctx, -1) {
			if err != nil || e.Type != persistence.EventTurnFinished {
				t.Errorf("Events() = %s, %v", e.Type, err)
			}
			break
		}
	}
}

// A new watcher misses nothing of what others save before they know about it.
func TestWatchBeginsWhileOthersWrite(t *testing.T) {
	t.Parallel()
	a, b, _ := instances(t, persistencetest.PostgresURL(t), true)
	for range 20 {
		key := persistencetest.NewThread(t, a, "anna", "")
		there := pull(t, b, key)
		say(t, a, key, "1")
		want(t, there, "message 1") // the poll is an hour away
		say(t, a, key, "2")
		want(t, there, "message 2")
	}
}

// TestReach: a process that is dead or never existed is nowhere.
func TestReach(t *testing.T) {
	t.Parallel()
	_, b, _ := silent(t)
	for _, instance := range []string{"a", "nobody"} {
		if _, err := b.Cluster.Reach(t.Context(), instance); !errors.Is(err, persistence.ErrGone) {
			t.Errorf("Reach() of %s = %v, want ErrGone", instance, err)
		}
	}
}

// TestRateForgottenMeanwhile counts uses of a rate that another instance forgets in
// between.
func TestRateForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	dsn := persistencetest.PostgresURL(t)
	a, b := persistencetest.Open(t, dsn, persistence.Options{}), persistencetest.Open(t, dsn, persistence.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var forgetting sync.WaitGroup
	forgetting.Go(func() {
		for ctx.Err() == nil {
			if err := b.Admission.ForgetRates(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("forget rates: %v", err)
				return
			}
		}
	})
	for range 300 {
		// A rate so high that nothing of it is used up when the next use comes.
		if wait, err := a.Admission.TakeRate(ctx, "texts of anna", 1e7); wait > 0 || err != nil {
			t.Errorf("TakeRate() = %v, %v", wait, err)
			break
		}
	}
	stop()
	forgetting.Wait()
}

// TestClocks: processes whose machines' clocks differ by minutes respect each other's claims and deadlines.
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := persistencetest.PostgresURL(t)
			clock := func() time.Time { return time.Now().Add(by) }
			a := persistencetest.Open(t, url, persistence.Options{})
			b := persistencetest.Open(t, url, persistence.Options{Clock: clock})
			for _, s := range []*persistence.Store{a, b} {
				must(t, s.Serve(t.Context()))
			}
			for from, to := range map[*persistence.Store]*persistence.Store{a: b, b: a} {
				if apart := from.Cluster.Now().Sub(to.Cluster.Now()).Abs(); apart > time.Second {
					t.Errorf("the processes' times are %v apart", apart)
				}
				respectsTurn(t, from, to)
				respectsClaim(t, from, to)
			}
			answersInTime(t, b, a, clock().Add(time.Minute))

			token := admission.Token{ID: "t", Kind: "session", Owner: "anna", CreatedAt: clock(), ExpiresAt: clock().Add(time.Minute)}
			must(t, b.Admission.SaveToken(t.Context(), token, 5))
			read, err := a.Admission.Token(t.Context(), token.Kind, token.ID)
			if left := time.Until(read.ExpiresAt); err != nil || left <= 0 || left > time.Minute+time.Second {
				t.Errorf("AccessToken() = %v, it expires in %v", err, left)
			}
			if n, err := a.Admission.CountTokens(t.Context(), "anna", token.Kind, time.Now()); err != nil || n != 1 {
				t.Errorf("CountAccessTokens() = %d, %v", n, err)
			}
		})
	}
}

func respectsTurn(t *testing.T, from, to *persistence.Store) {
	t.Helper()
	key := persistencetest.NewThread(t, from, "anna", "")
	claim := func(s *persistence.Store, id string) error {
		return s.Batch(t.Context(), key, func(b *persistence.Batch) error { return b.ClaimTurn(id) })
	}
	must(t, claim(from, "1"))
	if err := claim(to, "2"); !errors.Is(err, persistence.ErrConflict) {
		t.Errorf("ClaimTurn() of a thread that is taken = %v, want ErrConflict", err)
	}
	if err := to.StopTurn(t.Context(), key); err != nil {
		t.Errorf("StopTurn() = %v", err)
	}
}

func respectsClaim(t *testing.T, from, to *persistence.Store) {
	t.Helper()
	key := persistencetest.NewThread(t, from, "anna", "")
	m, _, err := from.Queued.Add(t.Context(), key, queued.Message{Text: "hello"}, 10)
	must(t, err)
	o := queued.ClaimOptions{ID: m.ID}
	if _, err := from.Queued.Claim(t.Context(), key, o); err != nil {
		t.Fatalf("Claim() = %v", err)
	}
	if _, err := to.Queued.Claim(t.Context(), key, o); !errors.Is(err, persistence.ErrBusy) {
		t.Errorf("Claim() of a message that is claimed = %v, want ErrBusy", err)
	}
}

// answersInTime answers a question that one process asks, until a time by its own clock, at the other one.
func answersInTime(t *testing.T, asks, answers *persistence.Store, until time.Time) {
	t.Helper()
	key := persistencetest.NewThread(t, asks, "anna", "")
	a := thread.Approval{ID: "t", ToolCallID: "fc", Nonce: "n", ExpiresAt: until}
	err := asks.Batch(t.Context(), key, func(b *persistence.Batch) error {
		return errors.Join(b.Records.SaveToolCall(thread.ToolCall{ID: "t", ToolCallID: "fc", Name: "http", Status: thread.ToolCallRunning}), b.SaveApproval(a))
	})
	must(t, err)
	open, err := answers.OpenApprovals(t.Context(), key)
	if err != nil || len(open) != 1 {
		t.Errorf("OpenApprovals() = %v, %v", open, err)
	}
	if err := answers.AnswerApproval(t.Context(), key, "fc", "n", "anna", true); err != nil {
		t.Errorf("AnswerApproval() = %v", err)
	}
	if read, err := asks.Approval(t.Context(), key, "t"); err != nil || read.ExpiresAt.Sub(until).Abs() > time.Minute {
		t.Errorf("Approval() = %v, %v, want one until %v", read, err, until)
	}
}
