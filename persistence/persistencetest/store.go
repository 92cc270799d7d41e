package persistencetest

import (
	"errors"
	"slices"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
)

func (s suite) migrations(t *testing.T) {
	url := s.newURL(t) // which has been migrated, so that there is nothing to do
	must(t, persistence.Migrate(t.Context(), url, persistence.Options{}))
	for _, name := range []string{
		"threads", "messages", "tool_calls", "calls", "responses", "queued_messages", "approvals",
		"conversation_transcript", "tool_call_log", "call_summary",
	} {
		if _, rows := table(t, url, "SELECT * FROM "+name); len(rows) != 0 {
			t.Errorf("%s is not empty", name)
		}
	}
	// The queue's table has the columns that the queue needs.
	columns, _ := table(t, url, "SELECT * FROM queued_messages")
	for _, c := range []string{
		"state", "position", "attempts", "idempotency_key", "client_id", "image_ids", "title",
		"scheduled_at", "error", "queued_at", "sent_at",
	} {
		if !slices.Contains(columns, c) {
			t.Errorf("queued_messages has no column %s", c)
		}
	}
}

func (s suite) open(t *testing.T) {
	url := s.emptyURL(t)
	bare := Open(t, url, persistence.Options{NoMigrate: true, Instance: "me"})
	if err := bare.Ping(t.Context()); err == nil {
		t.Error("Ping() without tables = nil")
	}
	testkit.Equal(t, bare.Instance(), "me", "Instance()")
	one, two := Open(t, url, persistence.Options{}), Open(t, url, persistence.Options{})
	if one.Instance() == two.Instance() || one.Instance() == "" {
		t.Errorf("two stores are instances %q and %q", one.Instance(), two.Instance())
	}
	key := newThread(t, one, "anna")
	must(t, errOf(two.Thread(t.Context(), key)))
	if _, err := one.Recover(t.Context()); err == nil {
		t.Error("Recover() without Serve = nil")
	}
	for range 2 {
		if err := one.Serve(t.Context()); err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}
	for range 2 {
		if err := one.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if _, err := one.Thread(t.Context(), key); err == nil || errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Thread() of a closed store = %v", err)
	}
	must(t, two.Serve(t.Context()))
}
