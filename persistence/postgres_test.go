package persistence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

const patience = 3 * time.Minute

// instances opens two stores on one database, as two processes would.
func instances(t *testing.T, url string, serve bool) (a, b *persistence.Store, key thread.Key) {
	t.Helper()
	a = persistencetest.Open(t, url, persistence.Options{Instance: "a"})
	b = persistencetest.Open(t, url, persistence.Options{Instance: "b"})
	persistence.PollEvery(a, time.Hour)
	persistence.PollEvery(b, time.Hour) // so only notifications tell it of changes
	if serve {
		for _, s := range []*persistence.Store{a, b} {
			must(t, s.Serve(t.Context()))
		}
	}
	return a, b, persistencetest.NewThread(t, a, "anna", "")
}

func say(t *testing.T, s *persistence.Store, key thread.Key, text string) thread.Message {
	t.Helper()
	m, err := persistencetest.AppendMessage(t.Context(), s, key, thread.Message{
		Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(text)},
	})
	must(t, err)
	return m
}

// pull returns the events of a watch one by one, as "type text" or "type data".
func pull(t *testing.T, s *persistence.Store, key thread.Key) func() string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	next, stop := iter.Pull2(s.Watch(key).Events(ctx, 0))
	t.Cleanup(stop)
	return func() string {
		t.Helper()
		e, err, ok := next()
		for ok && err == nil && e.Type == marker {
			e, err, ok = next()
		}
		if !ok || err != nil {
			return fmt.Sprint("error ", err)
		}
		var data struct{ Message thread.Message }
		if e.Type == persistence.EventMessage && json.Unmarshal(e.Data, &data) == nil {
			return "message " + data.Message.Text()
		}
		return fmt.Sprintf("%s %s", e.Type, e.Data)
	}
}

// marker is the type of the events that pull skips.
const marker = "marker"

// untilWatched waits until what one store publishes reaches another.
func untilWatched(t *testing.T, from, to *persistence.Store, key thread.Key) {
	t.Helper()
	untilMarked(t, from, key, func(ctx context.Context) events { return to.Watch(key).Events(ctx, -1) })
}

type events = iter.Seq2[persistence.Event, error]

// tell tells of an event in a transaction.
func tell(t *testing.T, s *persistence.Store, key thread.Key, e persistence.Event) {
	t.Helper()
	must(t, s.Batch(t.Context(), key, func(b *persistence.Batch) error { return b.Tell(e) }))
}

// untilMarked publishes markers until one arrives.
func untilMarked(t *testing.T, from *persistence.Store, key thread.Key, watch func(context.Context) events) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var publishing sync.WaitGroup
	defer publishing.Wait()
	defer cancel()
	publishing.Go(func() {
		tick := time.Tick(10 * time.Millisecond)
		for ctx.Err() == nil {
			from.Publish(ctx, key, persistence.Event{Type: marker})
			select {
			case <-tick:
			case <-ctx.Done():
			}
		}
	})
	for e, err := range watch(ctx) {
		must(t, err)
		if e.Type == marker {
			return
		}
	}
}

func want(t *testing.T, next func() string, events ...string) {
	t.Helper()
	for _, w := range events {
		if got := next(); got != w {
			t.Fatalf("Watch() gives %q, want %q", got, w)
		}
	}
}

func TestInstancesNotifyEachOther(t *testing.T) {
	t.Parallel()
	a, b, key := instances(t, persistencetest.PostgresURL(t), true)
	first := say(t, a, key, "1")
	there, here := pull(t, b, key), pull(t, a, key)
	want(t, there, "message 1")
	want(t, here, "message 1")
	say(t, a, key, "2")
	want(t, there, "message 2")
	untilWatched(t, a, b, key)
	// The same event twice is delivered twice, and a large one, too.
	large := json.RawMessage(`"` + strings.Repeat("x", 8000) + `"`)
	for _, data := range []string{`{"n":1}`, `{"n":1}`, string(large), `{"n":"\u0000'"}`} {
		a.Publish(t.Context(), key, persistence.Event{Type: "draft", Data: json.RawMessage(data)})
	}
	want(t, here, "message 2", `draft {"n":1}`, `draft {"n":1}`, "draft "+string(large), `draft {"n":"\u0000'"}`)
	want(t, there, `draft {"n":1}`, `draft {"n":1}`, "draft "+string(large), `draft {"n":"\u0000'"}`)
	if _, err := persistencetest.InsertMessage(t.Context(), b, key, thread.Message{
		Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("1b")},
	}, first.ID); err != nil {
		t.Fatalf("InsertMessage() = %v", err)
	}
	want(t, here, "message 1b", "message 2")
	want(t, there, "message 1b", "message 2")
	must(t, a.DeleteThread(t.Context(), key))
	want(t, there, "error watch thread: not found")
}

// TestEventsOfDeadProcess: an event of a process that died right after its transaction is told by another one.
func TestEventsOfDeadProcess(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	must(t, s.Serve(t.Context()))
	key := persistencetest.NewThread(t, s, "anna", "")
	there := pull(t, s, key)
	untilWatched(t, s, s, key)
	watch := persistencetest.WatchOwner(t, s, "anna")
	persistencetest.Rows(t, url, fmt.Sprintf(`INSERT INTO unnumbered_events (mark, owner, thread_id, type, data, at) VALUES
		('dead 1', 'anna', '%s', 'last words', '{}', now()), ('dead 2', 'anna', '', 'last words', '{}', now())`, key.Thread))
	if _, err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, there, "last words {}")
	for e, err := range watch.Events(persistencetest.Within(t)) {
		must(t, err)
		if e.Type == "last words" {
			break
		}
	}
}

// TestOwnerWatchedElsewhere has threads made, renamed and deleted by another process.
func TestOwnerWatchedElsewhere(t *testing.T) {
	t.Parallel()
	a, b, key := instances(t, persistencetest.PostgresURL(t), true)
	owner := thread.Key{Owner: key.Owner}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	untilMarked(t, a, owner, persistencetest.WatchOwner(t, b, key.Owner).Events)
	watch := persistencetest.WatchOwner(t, b, key.Owner)
	steps := []func() error{
		func() error {
			_, err := a.RenameThread(t.Context(), key, "New")
			return err
		},
		func() error { return a.DeleteThread(t.Context(), key) },
		func() error {
			a.Publish(t.Context(), owner, persistence.Event{Type: "large", Data: json.RawMessage(`"` + strings.Repeat("x", 8000) + `"`)})
			return nil
		},
	}
	key = persistencetest.NewThread(t, a, key.Owner, "")
	var got []string
	for e, err := range watch.Events(ctx) {
		if err != nil {
			t.Fatalf("WatchOwner() = %v after %v", err, got)
		}
		if e.Type == marker {
			continue
		}
		if got = append(got, string(e.Type)); len(got) > len(steps) {
			break
		}
		if err := steps[len(got)-1](); err != nil {
			t.Fatalf("after %s: %v", e.Type, err)
		}
	}
	testkit.Equal(t, got, []string{"thread_created", "thread_updated", "thread_deleted", "large"}, "events")
}

func TestSecondProcessWithTheSameInstance(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	instances(t, url, true)
	again := persistencetest.Open(t, url, persistence.Options{Instance: "a"})
	if err := again.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), `instance "a"`) {
		t.Errorf("Serve() = %v, want an error about the instance", err)
	}
}

func TestListenConnectionLost(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	a, b, key := instances(t, url, true)
	say(t, a, key, "1")
	must(t, b.Records.SaveCall(t.Context(), key, records.Call{ID: "of b"}))
	there := pull(t, b, key)
	want(t, there, "message 1")
	owner := persistencetest.WatchOwner(t, b, key.Owner)
	// End the connections that listen.
	if _, err := connect(t, url).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`); err != nil {
		t.Fatalf("end the connections: %v", err)
	}
	say(t, a, key, "2") // its notification may be lost, the message may not
	want(t, there, "message 2")
	say(t, a, key, "3")
	want(t, there, "message 3")
	untilWatched(t, a, b, key) // the connection is back
	must(t, a.DeleteThread(t.Context(), key))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	for e, err := range owner.Events(ctx) {
		must(t, err)
		if got = append(got, string(e.Type)); e.Type == persistence.EventThreadDeleted {
			break
		}
	}
	if d := cmp.Diff([]string{"thread_deleted"}, got); d != "" { // it was used twice before, but is gone
		t.Errorf("events of the owner (-want +got):\n%s", d)
	}
	if calls, err := a.Recover(t.Context()); err != nil || len(calls) != 0 {
		t.Errorf("Recover() = %v, %v, though the other is alive", calls, err)
	}
}

// TestReadOnlyForAWhile: once a database that has become read-only takes writes again, so does the
// store, although a connection keeps what was set when it began.
func TestReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	admin := connect(t, url)
	readOnly := func(value string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), `DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+value+`', current_database());
			PERFORM pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND '`+value+`' = 'on';
		END $$`); err != nil {
			t.Fatalf("make the database read-only %s: %v", value, err)
		}
	}
	s := persistencetest.Open(t, url, persistence.Options{MaxConns: 2})
	write := func() error {
		_, err := s.CreateThread(t.Context(), "anna", "")
		return err
	}
	readOnly("on")
	for range 3 { // on the connection that was ended, and on new ones
		if err := write(); !errors.Is(err, persistence.ErrUnavailable) {
			t.Errorf("CreateThread() in a read-only database = %v, want ErrUnavailable", err)
		}
	}
	readOnly("off")
	if err := write(); err != nil {
		t.Errorf("CreateThread() = %v, although the database takes writes again", err)
	}
}

// TestSerializableByDefault: a stricter default of the database does not make writers fail.
func TestSerializableByDefault(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	if _, err := connect(t, url).Exec(t.Context(), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
	END $$`); err != nil {
		t.Fatalf("make transactions serializable: %v", err)
	}
	s := persistencetest.Open(t, url, persistence.Options{})
	key := persistencetest.NewThread(t, s, "anna", "")
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for range 25 {
				if _, err := persistencetest.AppendMessage(t.Context(), s, key, thread.Message{Role: thread.RoleUser}); err != nil {
					t.Errorf("AppendMessage() = %v", err)
					return
				}
			}
		})
	}
	writing.Wait()
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// A client goes away while the database commits: what its transaction saved is known to have been saved.
func TestCancelledWhileCommitting(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	store, admin := persistencetest.Open(t, url, persistence.Options{}), connect(t, url)
	do := func(statements string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statements); err != nil {
			t.Fatalf("%s: %v", statements, err)
		}
	}
	do(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON threads DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait();
		SELECT pg_advisory_lock(1)`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made := make(chan error)
	go func() {
		_, err := store.CreateThread(ctx, "anna", "")
		made <- err
	}()
	for committing := 0; committing == 0; {
		must(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&committing))
	}
	cancel()
	do("SELECT pg_advisory_unlock(1)")
	if err := testkit.Take(t, "that it is made", made); err != nil {
		t.Errorf("CreateThread() = %v, though it was saved", err)
	}
	if threads, _, err := store.Threads(t.Context(), "anna", persistence.ThreadFilter{}); err != nil || len(threads) != 1 {
		t.Errorf("Threads() = %v, %v", threads, err)
	}
}

// TestErasedWhileNumbered deletes a thread while another process gives its latest event a number: nothing of it stays.
func TestErasedWhileNumbered(t *testing.T) {
	t.Parallel()
	url, ctx := persistencetest.PostgresURL(t), t.Context()
	store, admin := persistencetest.Open(t, url, persistence.Options{}), connect(t, url)
	key := persistencetest.NewThread(t, store, "anna", "")
	for _, statement := range []string{
		`INSERT INTO unnumbered_events (mark, owner, thread_id, type, data, at) VALUES ('m', 'anna', '` + key.Thread + `', 'x', '{}', now())`,
		`BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('log of ', 0));
			WITH moved AS (DELETE FROM unnumbered_events RETURNING *)
			INSERT INTO events (mark, owner, thread_id, type, data, at) SELECT mark, owner, thread_id, type, data, at FROM moved`,
	} {
		_, err := admin.Exec(ctx, statement)
		must(t, err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- store.DeleteThread(ctx, key) }()
	untilOneWaits(t, url)
	_, err := admin.Exec(ctx, "COMMIT")
	must(t, err)
	must(t, testkit.Take(t, "the deletion", deleted))
	if rows := persistencetest.Rows(t, url, "SELECT type FROM events WHERE mark = 'm'"); len(rows) != 0 {
		t.Errorf("%v stays in the log", rows)
	}
}

// A quiet connection is tested repeatedly and still delivers.
func TestQuietConnection(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	a := persistencetest.Open(t, url, persistence.Options{})
	b := persistencetest.Open(t, url, persistence.Options{})
	persistence.PollEvery(b, time.Millisecond)
	must(t, b.Serve(t.Context()))
	key := persistencetest.NewThread(t, a, "anna", "")
	say(t, a, key, "1")
	there := pull(t, b, key)
	want(t, there, "message 1")
	untilWatched(t, a, b, key)
	for i := range 50 {
		a.Publish(t.Context(), key, persistence.Event{Type: "draft", Data: fmt.Appendf(nil, "%d", i)})
		want(t, there, fmt.Sprint("draft ", i))
	}
}

func TestPollWithoutNotifications(t *testing.T) {
	t.Parallel()
	a, b, key := instances(t, persistencetest.PostgresURL(t), false) // b does not listen
	say(t, a, key, "1")
	persistence.PollEvery(b, 20*time.Millisecond)
	there := pull(t, b, key)
	want(t, there, "message 1")
	say(t, a, key, "2")
	want(t, there, "message 2")
	must(t, a.DeleteThread(t.Context(), key))
	want(t, there, "error watch thread: not found")
}

func TestRecoverAmongInstances(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	a, b, key := instances(t, url, true)
	must(t, b.Records.SaveCall(t.Context(), key, records.Call{ID: "of b"}))
	if calls, err := a.Recover(t.Context()); err != nil || len(calls) != 0 {
		t.Fatalf("Recover() = %v, %v, want nothing", calls, err)
	}
	must(t, b.Close())
	if calls, err := a.Recover(t.Context()); err != nil || len(calls) != 1 || calls[0].ID != "of b" {
		t.Errorf("Recover() = %v, %v, want the call of b", calls, err)
	}
}

// However many queries run at once, a process has at most the configured number of
// connections, plus one that listens, and those of heartbeats.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	dsn := persistencetest.PostgresURL(t)
	s := persistencetest.Open(t, dsn, persistence.Options{MaxConns: 4})
	must(t, s.Serve(t.Context()))
	var asking sync.WaitGroup
	for i := range 40 {
		asking.Go(func() {
			owner := fmt.Sprint("owner ", i%8)
			row, err := s.CreateThread(t.Context(), owner, "")
			if err == nil {
				_, err = s.Thread(t.Context(), thread.Key{Owner: owner, Thread: row.ID})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	const query = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND application_name = 'voicebridge'
			AND query NOT LIKE '%name: Beat %'`
	testkit.Eventually(t, "3 to 5 connections", func() bool { // one that was closed is counted until its process has ended
		n := persistencetest.Rows(t, dsn, query)[0][0]
		return len(n) == 1 && n >= "3" && n <= "5"
	})
}

// TestQueryLimit: a query that nobody answers ends, in reading and in writing.
func TestQueryLimit(t *testing.T) {
	t.Parallel()
	dsn := persistencetest.PostgresURL(t)
	for i, limit := range persistence.QueryLimits(persistencetest.Open(t, dsn, persistence.Options{})) {
		if limit != persistence.QueryLimit(15*time.Second) {
			t.Errorf("connections %d: the limit is %v", i, limit)
		}
	}
	cfg, err := pgx.ParseConfig(dsn)
	must(t, err)
	for what, run := range map[string]func(*pgx.Conn) error{
		"Exec":     func(c *pgx.Conn) error { return second(c.Exec(t.Context(), "SELECT pg_sleep(3600)")) },
		"QueryRow": func(c *pgx.Conn) error { return c.QueryRow(t.Context(), "SELECT pg_sleep(3600)").Scan(nil) },
	} {
		cfg.Tracer = persistence.QueryLimit(100 * time.Millisecond)
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		must(t, err)
		if err := run(conn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s() = %v", what, err)
		}
		_ = conn.Close(t.Context()) // it is closed
	}
}
