package persistence_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// Behind a pooler no statement is prepared: everything works without that, too.
func TestPostgresUnprepared(t *testing.T) {
	t.Parallel()
	persistencetest.Run(t, func(t testing.TB) string {
		u, err := url.Parse(persistencetest.PostgresURL(t))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("default_query_exec_mode", "exec")
		u.RawQuery = q.Encode()
		return u.String()
	})
}

// Without notifications what others do is found by asking.
func TestWithoutListen(t *testing.T) {
	t.Parallel()
	dsn := persistencetest.PostgresURL(t)
	a := persistencetest.Open(t, dsn, persistence.Options{NoListen: true})
	b := persistencetest.Open(t, dsn, persistence.Options{NoListen: true})
	for _, s := range []*persistence.Store{a, b} {
		if err := s.Serve(t.Context()); err != nil {
			t.Fatalf("Serve() = %v", err)
		}
	}
	thread, err := a.CreateThread(t.Context(), "anna", "")
	if err != nil {
		t.Fatalf("CreateThread() = %v", err)
	}
	key := persistence.Key{Owner: "anna", Thread: thread.ID}
	there := pull(t, b, key)
	say(t, a, key, "1")
	want(t, there, "message 1")
	say(t, a, key, "2")
	want(t, there, "message 2")
	if n := persistence.Sent(a); n != 0 {
		t.Errorf("%d notes were sent, though nobody listens", n)
	}
}

// What nobody listens to is not sent: not by a process that is alone, and not to
// one that watches nothing of it.
func TestNothingIsSentToNobody(t *testing.T) {
	t.Parallel()
	a, b, key := instances(t, persistencetest.PostgresURL(t), true)
	draft := func(key persistence.Key) {
		a.Publish(t.Context(), key, persistence.Event{Type: "draft", Data: json.RawMessage(`"x"`)})
	}
	for range 100 {
		draft(key)
	}
	if n := persistence.Sent(a); n != 0 {
		t.Errorf("%d notes were sent, though nobody watches", n)
	}
	say(t, a, key, "1")
	there := pull(t, b, key)
	want(t, there, "message 1")
	untilHeard(t, a, b, key)
	draft(key)
	want(t, there, `draft "x"`)
	if persistence.Sent(a) == 0 {
		t.Error("nothing was sent, though b watches")
	}
}

// Who begins to watch misses nothing of what others save before they know it.
func TestWatchBeginsWhileOthersWrite(t *testing.T) {
	t.Parallel()
	a, b, _ := instances(t, persistencetest.PostgresURL(t), true)
	for range 20 {
		thread, err := a.CreateThread(t.Context(), "anna", "")
		if err != nil {
			t.Fatalf("CreateThread() = %v", err)
		}
		key := persistence.Key{Owner: "anna", Thread: thread.ID}
		there := pull(t, b, key)
		say(t, a, key, "1")
		want(t, there, "message 1") // the poll comes in an hour
		say(t, a, key, "2")
		want(t, there, "message 2")
	}
}

// A command reaches another process at once, not by its poll alone.
func TestCommandIsNoted(t *testing.T) {
	t.Parallel()
	a, b, key := instances(t, persistencetest.PostgresURL(t), true)
	done := make(chan error, 1)
	go func() {
		done <- b.HandleCommands(t.Context(), func(_ context.Context, c persistence.Command) (json.RawMessage, error) { return c.Body, nil })
	}()
	began := time.Now()
	for range 20 {
		reply, err := a.Ask(t.Context(), persistence.Command{Instance: "b", Key: key, Kind: "echo", Body: json.RawMessage("1")})
		if err != nil || string(reply) != "1" {
			t.Fatalf("Ask() = %s, %v", reply, err)
		}
	}
	t.Logf("a command took %v", time.Since(began)/20)
	if err := b.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	<-done
}
