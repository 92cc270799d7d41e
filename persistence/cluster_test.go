package persistence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		if diff := cmp.Diff([][]string{{"http://10.0.0.5:8080 ab"}}, got); diff != "" {
			t.Errorf("the row of the process (-want +got):\n%s", diff)
		}
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
			if d := cmp.Diff([]persistence.EventType{persistence.EventThreadUpdated, persistence.EventTurnFinished}, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
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

// A command reaches another process at once, without waiting for its poll.
func TestCommandArrivesAtOnce(t *testing.T) {
	t.Parallel()
	a, b, key := instances(t, persistencetest.PostgresURL(t), true)
	done := make(chan error, 1)
	go func() {
		done <- b.Cluster.HandleCommands(t.Context(), func(_ context.Context, c cluster.Command) (json.RawMessage, error) { return c.Body, nil })
	}()
	began := time.Now()
	for range 20 {
		reply, err := a.Cluster.Ask(t.Context(), cluster.Command{Instance: "b", Key: key, Kind: "echo", Body: json.RawMessage("1")})
		if err != nil || string(reply) != "1" {
			t.Fatalf("Ask() = %s, %v", reply, err)
		}
	}
	t.Logf("a command took %v", time.Since(began)/20)
	must(t, b.Close())
	<-done
}

// Asking a process that is dead or never existed fails at once.
func TestAskDeadProcess(t *testing.T) {
	t.Parallel()
	_, b, key := silent(t)
	for _, instance := range []string{"a", "nobody"} {
		_, err := b.Cluster.Ask(t.Context(), cluster.Command{Instance: instance, Key: key, Kind: "echo"})
		if !errors.Is(err, persistence.ErrGone) {
			t.Errorf("Ask() of %s = %v, want ErrGone", instance, err)
		}
	}
}

// TestAskWhileAway: an answer arrives although a connection is lost when it is saved, and when it is read.
func TestAskWhileAway(t *testing.T) {
	t.Parallel()
	s := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{})
	persistence.LoseAnswers(s)
	var handling sync.WaitGroup
	defer handling.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handling.Go(func() {
		_ = s.Cluster.HandleCommands(ctx, func(context.Context, cluster.Command) (json.RawMessage, error) {
			return json.RawMessage(`"done"`), nil
		})
	})
	reply, err := s.Cluster.Ask(ctx, cluster.Command{Instance: s.Instance(), Key: thread.Key{Owner: "anna", Thread: "t"}, Kind: "do"})
	if err != nil || string(reply) != `"done"` {
		t.Errorf("Ask() = %s, %v", reply, err)
	}
}

// Whatever the commands table contains, each row is handed out at most once, gets an
// answer, and does not keep others from getting theirs.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	a, b, key := instances(t, url, true)
	const row = "INSERT INTO commands (id, instance, owner, thread_id, kind, body, created_at, expires_at, taken_at, reply, error) VALUES "
	soon, past := "now() + interval '1 hour'", "now() - interval '1 hour'"
	for _, values := range []string{
		"('not json', 'b', 'anna', 't', 'fine', '{\"a\":', now(), " + soon + ", NULL, '', '')",
		"('nobody', 'b', '', '', '', '', now(), " + soon + ", NULL, '', '')",
		"('panic', 'b', 'anna', 't', 'panic', '', now(), " + soon + ", NULL, '', '')",
		"('large', 'b', 'anna', 't', 'large', repeat('x', 5000000), now(), " + soon + ", NULL, '', '')",
		"('late', 'b', 'anna', 't', 'late', '', now(), " + past + ", NULL, '', '')",
		"('taken', 'b', 'anna', 't', 'taken', '', now(), " + soon + ", now(), '', '')",
		"('of others', 'c', 'anna', 't', 'of others', '', now(), " + soon + ", NULL, '', '')",
	} {
		persistencetest.Rows(t, url, row+values+" RETURNING id")
	}
	var mu sync.Mutex
	handled := map[string]int{}
	done := make(chan error, 1)
	go func() {
		done <- b.Cluster.HandleCommands(t.Context(), func(_ context.Context, c cluster.Command) (json.RawMessage, error) {
			mu.Lock()
			handled[c.Kind]++
			mu.Unlock()
			switch c.Kind {
			case "panic":
				panic("a command")
			case "large":
				return c.Body, nil
			}
			return json.RawMessage("{}"), nil
		})
	}()
	for range 3 {
		if reply, err := a.Cluster.Ask(t.Context(), cluster.Command{Instance: "b", Key: key, Kind: "asked"}); err != nil || string(reply) != "{}" {
			t.Errorf("Ask() = %s, %v", reply, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for open := "1"; open != "0" && ctx.Err() == nil; runtime.Gosched() { // Close does not wait for answers
		open = persistencetest.Rows(t, url, "SELECT count(*) FROM commands WHERE id IN ('not json', 'nobody', 'panic', 'large') AND answered_at IS NULL")[0][0]
	}
	must(t, b.Close())
	<-done
	if diff := cmp.Diff(map[string]int{"fine": 1, "": 1, "panic": 1, "large": 1, "asked": 3}, handled); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
	for id, answer := range map[string]string{"not json": "", "nobody": "", "panic": "internal error", "large": "the answer is too large", "taken": "NULL"} {
		rows := persistencetest.Rows(t, url, "SELECT CASE WHEN answered_at IS NOT NULL THEN error END FROM commands WHERE id = '"+id+"'")
		if len(rows) != 1 || rows[0][0] != answer {
			t.Errorf("the answer to %s is %q, want %q", id, rows, answer)
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
				persistencetest.Start(t, func(ctx context.Context) error {
					return s.Cluster.HandleCommands(ctx, func(context.Context, cluster.Command) (json.RawMessage, error) { return json.RawMessage("1"), nil })
				})
			}
			key := persistencetest.NewThread(t, a, "anna", "")
			for from, to := range map[*persistence.Store]*persistence.Store{a: b, b: a} {
				if reply, err := from.Cluster.Ask(t.Context(), cluster.Command{Instance: to.Instance(), Key: key, Kind: "echo"}); err != nil || string(reply) != "1" {
					t.Errorf("Ask() = %s, %v", reply, err)
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
	if err := claim(from, "1"); err != nil {
		t.Fatalf("ClaimTurn() = %v", err)
	}
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
