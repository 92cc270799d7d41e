package persistence_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// TestReadmeQueries runs the queries of the README in the programs that it names: sqlite3 and
// psql of the distribution, which may be older than our drivers.
func TestReadmeQueries(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of SQL, want one for sqlite3 and one for psql", len(blocks))
	}
	for i, engine := range []struct {
		url     func(testing.TB) string
		program func(url, query string) *exec.Cmd
	}{
		{persistencetest.SQLiteURL, func(url, query string) *exec.Cmd {
			return exec.CommandContext(t.Context(), "sqlite3", "-readonly", "-bail", strings.TrimPrefix(url, "sqlite:"), query)
		}},
		{persistencetest.PostgresURL, func(url, query string) *exec.Cmd {
			return exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--command="+query, url)
		}},
	} {
		url := engine.url(t)
		store := persistencetest.Open(t, url, persistence.Options{})
		if _, err := store.CreateThread(t.Context(), "anna", ""); err != nil {
			t.Fatal(err)
		}
		views := map[string]bool{}
		for query := range strings.SplitSeq(strings.TrimSpace(blocks[i][1]), ";") {
			if query = strings.TrimSpace(query); query == "" {
				continue
			}
			if out, err := engine.program(url, query).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", query, err, out)
			}
			for _, view := range []string{"conversation_transcript", "tool_call_log", "call_summary"} {
				views[view] = views[view] || strings.Contains(query, view)
			}
		}
		if len(views) != 3 || !views["conversation_transcript"] || !views["tool_call_log"] || !views["call_summary"] {
			t.Errorf("views used: %v", views)
		}
	}
}
