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

// views are those made for people.
var views = []string{"conversation_transcript", "tool_call_log", "call_summary"}

// TestDocumentedQueries runs the queries of the README and of docs/tables.md in the programs that they name: sqlite3 and
// psql of the distribution, which may be older than our drivers.
func TestDocumentedQueries(t *testing.T) {
	t.Parallel()
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```")
	for program, run := range map[string]struct {
		url     func(testing.TB) string
		command func(url, query string) *exec.Cmd
	}{
		"sqlite3": {persistencetest.SQLiteURL, func(url, query string) *exec.Cmd {
			return exec.CommandContext(t.Context(), "sqlite3", "-readonly", "-bail", strings.TrimPrefix(url, "sqlite:"), query)
		}},
		"psql": {persistencetest.PostgresURL, func(url, query string) *exec.Cmd {
			return exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--command="+query, url)
		}},
	} {
		url := run.url(t)
		store := persistencetest.Open(t, url, persistence.Options{})
		_, err := store.CreateThread(t.Context(), "anna", "")
		must(t, err)
		for file, least := range map[string]int{"../README.md": 3, "../docs/tables.md": 5} {
			text, err := os.ReadFile(file)
			must(t, err)
			var all strings.Builder
			for _, block := range queries.FindAllStringSubmatch(string(text), -1) {
				for query := range strings.SplitSeq(strings.TrimSpace(block[1]), ";") {
					if query == "" {
						continue
					}
					if out, err := run.command(url, query).CombinedOutput(); err != nil {
						t.Errorf("%s: %s: %s: %v\n%s", file, program, query, err, out)
					}
					all.WriteString(query)
					least--
				}
			}
			if least > 0 {
				t.Errorf("%s lacks %d queries", file, least)
			}
			for _, view := range views {
				if !strings.Contains(all.String(), view) {
					t.Errorf("no query of %s uses %s", file, view)
				}
			}
		}
	}
}

// TestDocumentedColumns compares the columns of the views with those that docs/tables.md explains.
func TestDocumentedColumns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/tables.md")
	must(t, err)
	url := persistencetest.SQLiteURL(t)
	persistencetest.Open(t, url, persistence.Options{})
	for _, view := range views {
		_, section, _ := strings.Cut(string(text), "**`"+view+"`**")
		section, _, _ = strings.Cut(section, "\n\n**")
		section, _, _ = strings.Cut(section, "\n## ")
		out, err := exec.CommandContext(t.Context(), "sqlite3", strings.TrimPrefix(url, "sqlite:"),
			"SELECT name FROM pragma_table_info('"+view+"')").Output()
		must(t, err)
		for column := range strings.FieldsSeq(string(out)) {
			if !strings.Contains(section, "`"+column+"`") {
				t.Errorf("docs/tables.md does not explain %s.%s", view, column)
			}
		}
	}
}
