package persistence_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// What was deleted is not in the files of SQLite any more.
func TestDeletedIsNotInTheFile(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	thread, err := s.CreateThread(t.Context(), "anna", "")
	if err != nil {
		t.Fatalf("CreateThread() = %v", err)
	}
	key := persistence.Key{Owner: "anna", Thread: thread.ID}
	const private = "Zwetschgenknödel"
	for range 50 {
		say(t, s, key, strings.Repeat("a long story about "+private+" ", 50))
	}
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
	// FTS5 notes what was deleted from the index, and writes it anew later.
	tombstones := func() string {
		return persistencetest.Rows(t, url, "SELECT count(*) FROM message_index_data WHERE id >= 1 << 53")[0][0]
	}
	persistencetest.Rows(t, url, "DELETE FROM messages WHERE seq = 7")
	if tombstones() == "0" {
		t.Error("FTS5 notes in another place what was deleted: compact does not know it")
	}
	if err := s.DeleteThread(t.Context(), key); err != nil {
		t.Fatalf("DeleteThread() = %v", err)
	}
	if found() {
		t.Error("the words are in the file after DeleteThread")
	}
	if n := tombstones(); n != "0" {
		t.Errorf("%s pages of the index say what was deleted", n)
	}
	if terms := persistencetest.Rows(t, url, `SELECT count(*) FROM message_index WHERE message_index MATCH '"zwe"'`); terms[0][0] != "0" {
		t.Errorf("the index finds %s messages", terms[0][0])
	}
}
