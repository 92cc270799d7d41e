package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/persistencetest"
)

// Requests of another process are checked like those of a client.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}), &provider{}, queue.Config{})
	waits := b.add("one")
	for name, c := range map[string]struct{ kind, body, failure string }{
		"no kind":              {"", `{}`, ""},
		"an unknown kind":      {"queue.drop", `{}`, ""},
		"a command of calls":   {"call.hangup", `{}`, ""},
		"no body":              {"queue.send", ``, ""},
		"half a body":          {"queue.send", `{"id":`, ""},
		"a list":               {"queue.send", `[]`, ""},
		"a number":             {"queue.send", `{"id":7}`, ""},
		"nesting":              {"queue.send", strings.Repeat("[", 100_000), ""},
		"nothing":              {"queue.send", `null`, "not found"},
		"an empty id":          {"queue.send", `{"id":""}`, "not found"},
		"an odd id":            {"queue.send", `{"id":"'; DROP TABLE threads"}`, "not found"},
		"a message, and more":  {"queue.send", `{"id":"x","owner":"bert"}`, "not found"},
		"a message of another": {"queue.send", `{"id":"` + waits.ID + `"}`, "not found"},
	} {
		key := b.key
		if name == "a message of another" {
			key.Owner = "bert"
		}
		if reply, err := b.q.HandleCommand(b.within(), cluster.Command{Kind: c.kind, Key: key, Body: json.RawMessage(c.body)}); err == nil || !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: %s, %v, want %s", name, reply, err, c.failure)
		}
	}
	body, err := json.Marshal(map[string]string{"id": waits.ID})
	must(t, err)
	if reply, err := b.q.HandleCommand(b.within(), cluster.Command{Kind: "queue.send", Key: b.key, Body: body}); err != nil || reply != nil {
		t.Errorf("a message that waits: %s, %v", reply, err)
	}
}

// TestSendIntoCallElsewhere sends by a process that does not have the thread's call: the user gets the call's answer.
func TestSendIntoCallElsewhere(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	process := func() *bench {
		store := persistencetest.Open(t, url, persistence.Options{})
		must(t, store.Serve(t.Context()))
		return prepare(t, store, &provider{}, queue.Config{})
	}
	has, sends := process(), process()
	c := has.call()
	has.run()
	sends.run()
	ctx, cancel := context.WithCancel(t.Context())
	var handling sync.WaitGroup
	handling.Go(func() { _ = has.store.Cluster.HandleCommands(ctx, has.q.HandleCommand) })
	t.Cleanup(func() { cancel(); handling.Wait() })
	m := has.add("one")
	for _, want := range []error{persistence.Invalid("text: it is too long"), nil} {
		c.set(false, want)
		err := sends.q.Send(sends.within(), has.key, m.ID)
		if (err == nil) != (want == nil) || want != nil && (!errors.Is(err, persistence.ErrInvalid) || persistence.Reason(err) != want.Error()) {
			t.Errorf("Send() = %v, want %v", err, want)
		}
		wantSaid(t, c, "one")
	}
}
