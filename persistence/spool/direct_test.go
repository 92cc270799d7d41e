package spool

import (
	"errors"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// Without a file, changes are in the database when Commit returns, or nowhere.
func TestDirect(t *testing.T) {
	t.Parallel()
	s := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{})
	key := persistencetest.NewThread(t, s, "anna", "")
	d := Direct{Store: s}
	result, err := d.Commit(t.Context(), key, []persistence.Change{
		put("m1", "Hello.", persistence.PlaceLast),
		put("m2", "lost", persistence.PlaceAfter), // follows a message that does not exist
	})
	if err != nil || result.Spooled || len(result.Messages) == 0 {
		t.Errorf("Commit() = %+v, %v", result, err)
	}
	if m, err := s.Message(t.Context(), key, "m1"); err != nil || m.Text() != "Hello." {
		t.Errorf("Message() = %+v, %v", m, err)
	}
	away := &flaky{Store: s}
	away.away.Store(true)
	if _, err := (Direct{Store: away}).Commit(t.Context(), key, []persistence.Change{put("m3", "x", persistence.PlaceLast)}); !errors.Is(err, errAway) {
		t.Errorf("Commit() while the database is away = %v", err)
	}
	if d.Pending() != 0 || d.Full() {
		t.Errorf("Pending() = %d, Full() = %v", d.Pending(), d.Full())
	}
}
