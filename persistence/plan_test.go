package persistence_test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// plans lists, for each frequent query, the index it must use, so that it takes as long in
// a thread of a hundred thousand messages as in a small one.
var plans = map[string]string{
	"ListReplay":        "messages_by_seq",
	"ListInstructions":  "messages_instructions",
	"ListMessages":      "messages_by_seq",
	"ListChanges":       "messages_by_revision",
	"FirstMessageAfter": "messages_by_seq",
	"FirstOfLaterCall":  "calls_by_thread",
	"LastMessage":       "messages_by_seq",
	"GetMessage":        "messages_pkey",
	"MessageSeq":        "messages_pkey",
	"SearchMessages":    "messages_pkey",
	"MessagesWithWord":  "messages_by_words",
	"GetLiveCall":       "calls_live",
}

// sqlitePlans are tested with SQLite only: PostgreSQL chooses by its statistics, and may read
// a few rows in another way.
var sqlitePlans = map[string]string{
	"ListOpenApprovals": "approvals_by_thread",
	"ListGrowing":       "messages_open_by_thread",
	"ListDrafts":        "drafts",
	"ListErased":        "threads_by_activity",
	"ListOpenInstances": "turns_open",
	"ListLegsToHangUp":  "upstream_legs_open",
	"ListQueued":        "queued_messages_waiting",
	"ReleaseOfHook":     "hook_deliveries_sending",
	"ThreadsWithWord":   "messages_by_words",
	"ListThreads":       "messages_by_words",
}

// inOrder are the queries whose index has the rows in their order: none is read just to be sorted.
var inOrder = map[string]bool{"ListReplay": true, "ListMessages": true, "ListQueued": true, "ListLegsToHangUp": true}

// inTheIndex is the part of its search index that a query of SQLite reads: one step for a
// thread with a word, the latest first for messages, its own part for a thread.
var inTheIndex = map[string]string{
	"ThreadsWithWord":  "SCAN i VIRTUAL TABLE INDEX 64:M0>",
	"MessagesWithWord": "SCAN i VIRTUAL TABLE INDEX 192:M0<",
	"ListThreads":      "SCAN i VIRTUAL TABLE INDEX 0:M0><",
}

// crowd fills the tables of PostgreSQL with one long thread and many short ones.
var crowd = []string{
	`ALTER TABLE messages DISABLE TRIGGER messages_stored`, // it would write the long thread ten thousand times
	`INSERT INTO threads SELECT 't' || i, 'owner' || i % 50, '', 1000000, 0, now(), now(), '', '' FROM generate_series(1, 2000) AS i`,
	`INSERT INTO messages SELECT 'm' || i, CASE WHEN i % 2 = 0 THEN 't1' ELSE 't' || i % 2000 + 1 END, i, i, 0, 'user', 'voice',
		CASE WHEN i % 500 = 0 THEN 'in_progress' ELSE 'completed' END, 'words', '[]', '{}', '', '', '', '', NULL, NULL, 'me', now(), now(), 'words'
		FROM generate_series(1, 20000) AS i`,
	`INSERT INTO calls SELECT 'c' || i, 't' || i % 2000 + 1, '', '', '', '', now(), NULL, CASE WHEN i > 1000 THEN now() END, '', 0, 0, 0, 'me', i / 2000
		FROM generate_series(1, 20000) AS i`,
	`ANALYZE`,
}

// wholeTable matches a step in a plan of SQLite.
var wholeTable = regexp.MustCompile(`(?m)SCAN \w+$`)

var parameter = regexp.MustCompile(`@[a-z_]+`)

// queriesOf reads an engine's queries by name.
func queriesOf(t *testing.T, engine string) map[string]string {
	t.Helper()
	queries := map[string]string{}
	for _, folder := range []string{"", engine} {
		files, err := filepath.Glob(filepath.Join("../db/queries", folder, "*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no queries: %v", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			must(t, err)
			for _, block := range strings.Split(string(data), "-- name: ")[1:] {
				head, body, _ := strings.Cut(block, "\n")
				body, _, _ = strings.Cut(body, ";")
				queries[strings.Fields(head)[0]] = body
			}
		}
	}
	return queries
}

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	argument := func(name string) string {
		switch {
		case strings.HasPrefix(name, "@after_"), name == "@before_seq", name == "@max_rows":
			return "10"
		case name == "@words", name == "@ids":
			return "'[\"sentence\"]'"
		case name == "@word":
			return "'sentence'"
		case name == "@now", name == "@settled_by":
			return "'2026-01-02T03:04:05.000006Z'"
		}
		return "'t1'"
	}
	for engine, newURL := range persistencetest.URLs {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			persistencetest.Open(t, url, persistence.Options{})
			explain := "EXPLAIN QUERY PLAN "
			if engine == "postgres" {
				explain = "EXPLAIN "
				// PostgreSQL reads small tables as a whole.
				for _, fill := range crowd {
					persistencetest.Rows(t, url, fill)
				}
			}
			queries := queriesOf(t, engine)
			wanted := maps.Clone(plans)
			if engine == "sqlite" {
				maps.Copy(wanted, sqlitePlans)
			}
			for name, index := range wanted {
				query := queries[name]
				if query == "" {
					t.Errorf("there is no query %s", name)
					continue
				}
				var plan []string
				for _, row := range persistencetest.Rows(t, url, explain+parameter.ReplaceAllStringFunc(query, argument)) {
					plan = append(plan, strings.Join(row, " "))
				}
				text := strings.Join(plan, "\n")
				if engine == "sqlite" {
					index = cmp.Or(inTheIndex[name], strings.Replace(index, "messages_pkey", "sqlite_autoindex_messages_1", 1))
				}
				if !strings.Contains(text, index) || strings.Contains(text, "SCAN m\n") {
					t.Errorf("%s does not use %s:\n%s", name, index, text)
				}
				if name == "ListOpenInstances" && wholeTable.MatchString(text) {
					t.Errorf("%s reads a whole table:\n%s", name, text)
				}
				if inOrder[name] && (strings.Contains(text, "Sort") || strings.Contains(text, "TEMP B-TREE")) {
					t.Errorf("%s sorts:\n%s", name, text)
				}
			}
		})
	}
}

// TestReferencesHaveIndexes: deleting a row means looking for rows that refer to it.
func TestReferencesHaveIndexes(t *testing.T) {
	t.Parallel()
	for engine, c := range map[string]struct {
		newURL func(testing.TB) string
		query  string
	}{
		"sqlite": {persistencetest.SQLiteURL, `SELECT m.name, f."from" FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f
			WHERE m.type = 'table' AND NOT EXISTS (
				SELECT 1 FROM pragma_index_list(m.name) AS i, pragma_index_info(i.name) AS c
				WHERE i.partial = 0 AND c.seqno = 0 AND c.name = f."from")`},
		"postgres": {persistencetest.PostgresURL, `SELECT f.conrelid::regclass, f.conkey[1] FROM pg_constraint AS f
			WHERE f.contype = 'f' AND NOT EXISTS (
				SELECT 1 FROM pg_index AS i
				WHERE i.indrelid = f.conrelid AND i.indpred IS NULL AND i.indkey[0] = f.conkey[1])`},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := c.newURL(t)
			persistencetest.Open(t, url, persistence.Options{})
			if missing := persistencetest.Rows(t, url, c.query); len(missing) > 0 {
				t.Errorf("no index serves the references of %v", missing)
			}
		})
	}
}

// TestNothingIsPreparedAgain looks for partial indexes that make SQLite prepare queries
// again for every argument: those that compare a column with a constant which queries
// compare with a parameter (SQLite's exprCompareVariable).
func TestNothingIsPreparedAgain(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	persistencetest.Open(t, url, persistence.Options{})
	var all strings.Builder
	for _, query := range queriesOf(t, "sqlite") {
		all.WriteString(query + "\n")
	}
	condition := regexp.MustCompile(`WHERE (\w+) = '`)
	for _, row := range persistencetest.Rows(t, url, "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'") {
		for _, m := range condition.FindAllStringSubmatch(row[1], -1) {
			if compared := regexp.MustCompile(`[ .(]`+m[1]+` = @\w+\b.*`).FindAllString(all.String(), -1); len(compared) > 0 && !onlySet(all.String(), m[1]) {
				t.Errorf("%s is an index WHERE %s = a constant, and %d queries compare it with arguments", row[0], m[1], len(compared))
			}
		}
	}
}

// onlySet reports whether a column gets a parameter only where it is written.
func onlySet(queries, column string) bool {
	for line := range strings.Lines(queries) {
		text := strings.TrimSpace(line)
		if strings.Contains(text, column+" = @") && (strings.HasPrefix(text, "WHERE") || strings.HasPrefix(text, "AND") || strings.Contains(text, " WHERE ")) {
			return false
		}
	}
	return true
}
