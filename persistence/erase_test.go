package persistence_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// What was deleted is no longer in SQLite's files.
func TestDeletedIsNotInTheFile(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	key := persistencetest.NewThread(t, s, "anna", "")
	const private = "Zwetschgenknödel"
	for range 50 {
		say(t, s, key, strings.Repeat("a long story about "+private+" ", 50))
	}
	must(t, persistence.Index(t.Context(), s))
	path := strings.TrimPrefix(url, "sqlite:")
	found := func() bool {
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(path + suffix)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if bytes.Contains(bytes.ToLower(data), []byte(strings.ToLower(private))) {
				return true
			}
		}
		return false
	}
	if !found() {
		t.Fatal("the words are not in the file while the thread is there")
	}
	must(t, s.DeleteThread(t.Context(), key))
	if found() {
		t.Error("the words are in the file after DeleteThread")
	}
	rows := persistencetest.Rows(t, url, "SELECT (SELECT amount FROM message_index_deleted), count(*) FROM message_index WHERE message_index MATCH '\"zwe\"'")
	if rows[0][0] != "0" || rows[0][1] != "0" {
		t.Errorf("the index has %s deleted messages and finds %s", rows[0][0], rows[0][1])
	}
}

// A deleted thread that cannot be erased at the moment is deleted all the same: the sweep goes on.
func TestDeletedButNotErased(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	must(t, s.Serve(t.Context()))
	key := persistencetest.NewThread(t, s, "anna", "")
	say(t, s, key, "words")
	persistencetest.Rows(t, url, "CREATE TRIGGER failing BEFORE DELETE ON messages BEGIN SELECT RAISE(ABORT, 'not now'); END")
	if err := s.DeleteThread(t.Context(), key); err != nil {
		t.Errorf("DeleteThread() = %v, although nobody can read it any more", err)
	}
	if _, err := s.Thread(t.Context(), key); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Thread() = %v, want ErrNotFound", err)
	}
}
