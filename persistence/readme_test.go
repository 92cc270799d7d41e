package persistence_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// TestReadmeQueries runs the queries of the README: those after sqlite3 on SQLite, those
// after psql on PostgreSQL.
func TestReadmeQueries(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of SQL, want one for sqlite3 and one for psql", len(blocks))
	}
	for i, url := range []func(testing.TB) string{persistencetest.SQLiteURL, persistencetest.PostgresURL} {
		url := url(t)
		store := persistencetest.Open(t, url, persistence.Options{})
		if _, err := store.CreateThread(t.Context(), "anna", ""); err != nil {
			t.Fatal(err)
		}
		views := map[string]bool{}
		for query := range strings.SplitSeq(strings.TrimSpace(blocks[i][1]), ";") {
			if query = strings.TrimSpace(query); query == "" {
				continue
			}
			persistencetest.Rows(t, url, query) // fails the test if the query fails
			for _, view := range []string{"conversation_transcript", "tool_call_log", "call_summary"} {
				views[view] = views[view] || strings.Contains(query, view)
			}
		}
		if len(views) != 3 || !views["conversation_transcript"] || !views["tool_call_log"] || !views["call_summary"] {
			t.Errorf("views used: %v", views)
		}
	}
}
