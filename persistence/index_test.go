package persistence_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestIndex: a search finds the same in messages whether or not they are in the search index.
func TestIndex(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	s := persistencetest.Open(t, url, persistence.Options{})
	var keys []thread.Key
	for _, id := range []string{"t1", "t2", "t3"} {
		key := thread.Key{Owner: "anna", Thread: id}
		if _, err := s.EnsureThread(t.Context(), key); err != nil {
			t.Fatalf("EnsureThread() = %v", err)
		}
		keys = append(keys, key)
	}
	for i := range 30 {
		say(t, s, keys[i%3], fmt.Sprintf("herons and ducks %d", 100+i))
	}
	say(t, s, keys[1], "geese")
	waiting := func(want string) {
		t.Helper()
		if rows := persistencetest.Rows(t, url, "SELECT count(*) FROM unindexed_messages"); rows[0][0] != want {
			t.Errorf("%s messages are not in the index, want %s", rows[0][0], want)
		}
	}
	found := func(state string) {
		t.Helper()
		for query, want := range map[string]int{"herons": 3, "heron geese": 1, "ucks 111": 1, "swans": 0, "100 herons": 1, "103": 1} {
			if threads, _, err := s.Threads(t.Context(), "anna", persistence.ThreadFilter{Query: query}); err != nil || len(threads) != want {
				t.Errorf("%s: %q is found in %d threads, %v, want %d", state, query, len(threads), err, want)
			}
		}
		for word, want := range map[string]int{"ducks": 20, "geese": 1, "swans": 0, "100": 0, "101": 1} {
			if hits, err := s.SearchMessages(t.Context(), keys[0], []string{word}, 50); err != nil || len(hits) != want {
				t.Errorf("%s: %q is found in %d messages, %v, want %d", state, word, len(hits), err, want)
			}
		}
	}
	waiting("31")
	found("before")
	indexAll(t, s)
	waiting("0")
	found("after")
	persistencetest.Rows(t, url, "UPDATE messages SET status = 'in_progress' WHERE search_text LIKE '%11%'")
	persistencetest.Rows(t, url, "UPDATE messages SET status = 'completed' WHERE search_text LIKE '%11%'")
	say(t, s, keys[2], "swans")
	persistencetest.Rows(t, url, "DELETE FROM messages WHERE search_text = 'swans'")
	waiting("10")
	found("changed")
	indexAll(t, s)
	found("changed and indexed")
	if rows := persistencetest.Rows(t, url, `SELECT count(*), count(DISTINCT n.number >> 32), sum(t.thread_id <> m.thread_id)
		FROM message_numbers AS n JOIN messages AS m ON m.id = n.message_id JOIN thread_numbers AS t ON t.number = n.number >> 32`); strings.Join(rows[0], " ") != "31 3 0" {
		t.Errorf("messages with numbers, threads, strangers among them: %v, want 31 3 0", rows[0])
	}
	// A serving process does it by itself.
	say(t, s, keys[0], "storks")
	must(t, s.Serve(t.Context()))
	for len(persistencetest.Rows(t, url, "SELECT 1 FROM unindexed_messages")) > 0 {
		runtime.Gosched()
	}
}

func indexAll(t *testing.T, s *persistence.Store) {
	t.Helper()
	must(t, persistence.Index(t.Context(), s))
}
