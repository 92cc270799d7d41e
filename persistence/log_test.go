package persistence_test

import (
	"errors"
	"fmt"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestLogRefused: if events that a slow watcher has missed can never be in the log, it learns that.
func TestLogRefused(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	persistencetest.Rows(t, url, "CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END")
	watch := persistencetest.WatchOwner(t, s, "anna")
	for n := range 300 {
		s.Publish(t.Context(), thread.Key{Owner: "anna"}, persistence.Event{Type: "draft", Data: fmt.Append(nil, n)})
	}
	came, end := 0, error(nil)
	for _, end = range watch.Events(persistencetest.Within(t)) {
		came++
	}
	if !errors.Is(end, persistence.ErrMissed) {
		t.Errorf("after %d events: %v, want ErrMissed", came, end)
	}
}

// TestOutboxKeepsOrder: what could not be written stays before what came later.
func TestOutboxKeepsOrder(t *testing.T) {
	t.Parallel()
	if got := persistence.OutboxAfterFailure(700); len(got) != 701 {
		t.Errorf("%d events are left, want 701", len(got))
	} else {
		for n, data := range got {
			if data != fmt.Sprint(n) {
				t.Fatalf("event %d is %s", n, data)
			}
		}
	}
}
