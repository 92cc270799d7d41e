package spool

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// Without a file, changes are in the database when Commit returns, or nowhere.
func TestDirect(t *testing.T) {
	t.Parallel()
	s := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{})
	key := thread(t, s)
	d := Direct{Store: s, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
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
	if _, err := (Direct{Store: away, Logger: d.Logger}).Commit(t.Context(), key, []persistence.Change{put("m3", "x", persistence.PlaceLast)}); !errors.Is(err, errAway) {
		t.Errorf("Commit() while the database is away = %v", err)
	}
	if d.Pending() != 0 || d.Full() {
		t.Errorf("Pending() = %d, Full() = %v", d.Pending(), d.Full())
	}
}

// TestLostChanges: the loss of a change is an error, unless its thread has been deleted.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	s := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{})
	live, deleted, other := thread(t, s), thread(t, s), thread(t, s)
	if _, err := s.Apply(t.Context(), other, []persistence.Change{put("taken", "Hello.", persistence.PlaceLast)}); err != nil {
		t.Fatalf("Apply() = %v", err)
	}
	if err := s.DeleteThread(t.Context(), deleted); err != nil {
		t.Fatalf("DeleteThread() = %v", err)
	}
	const lost, dropped = `level=ERROR msg="change of a thread lost"`, `level=INFO msg="change of a deleted thread dropped"`
	for name, tt := range map[string]struct {
		key    persistence.Key
		change persistence.Change
		want   string
	}{
		"saved":                      {live, put("m1", "Hello.", persistence.PlaceLast), ""},
		"never valid":                {live, put("", "Hello.", persistence.PlaceLast), lost},
		"of another's message":       {live, put("taken", "Hello.", persistence.PlaceLast), lost},
		"never valid, of no thread":  {persistence.Key{}, put("m3", "Hello.", persistence.PlaceLast), lost},
		"of a deleted thread":        {deleted, put("m4", "Hello.", persistence.PlaceLast), dropped},
		"of a deleted thread's call": {deleted, persistence.PutCall{Call: persistence.CallRecord{ID: "c", Owner: deleted.Owner, ThreadID: deleted.Thread}}, dropped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			d := Direct{Store: s, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if _, err := d.Commit(t.Context(), tt.key, []persistence.Change{tt.change}); err != nil {
				t.Fatalf("Commit() = %v", err)
			}
			got := log.String()
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" || strings.Count(got, "\n") > 1 {
				t.Errorf("log: %s\nwant: %s", got, tt.want)
			}
		})
	}
}
