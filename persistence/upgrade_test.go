package persistence_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestUpgrade opens databases that the last commit before 0.1.0 filled. Afterwards they have what new ones have, all is
// as it was, and what was in the search index is found, changed and deleted as if this version had saved it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for engine, fresh := range map[string]string{"sqlite": persistencetest.SQLiteURL(t), "postgres": persistencetest.PostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := filledBy(t, engine)
			columns := columnsOf(t, url)
			want := contents(t, url, columns)
			s := persistencetest.Open(t, url, persistence.Options{})
			wantSame(t, contents(t, url, columns), want)
			wantSame(t, schemaOf(t, url), schemaOf(t, fresh))
			wantUpstreams(t, url)
			indexAll(t, s)
			find := func(query string) (id string) {
				t.Helper()
				found, _, err := s.Threads(t.Context(), "anna", persistence.ThreadFilter{Query: query})
				if err != nil || len(found) > 1 {
					t.Errorf("%q is found in %d threads, %v", query, len(found), err)
				}
				for _, f := range found {
					id = f.ID
				}
				return id
			}
			id := find("herons")
			say(t, s, thread.Key{Owner: "anna", Thread: id}, "storks")
			persistencetest.Rows(t, url, "UPDATE messages SET search_text = 'geese' WHERE search_text LIKE '%herons%'")
			for _, query := range []string{"geese", "storks", "ducks"} {
				if found := find(query); found != id || id == "" {
					t.Errorf("%q is found in %q, want %q", query, found, id)
				}
			}
			must(t, s.DeleteThread(t.Context(), thread.Key{Owner: "anna", Thread: id}))
			for _, query := range []string{"herons", "geese", "storks"} {
				testkit.Equal(t, find(query), "", "%q is found", query)
			}
		})
	}
}

// TestUpgradeOfAssistants has threads and calls from before migration 41, which name assistants by their ids alone.
func TestUpgradeOfAssistants(t *testing.T) {
	t.Parallel()
	for engine, url := range map[string]string{"sqlite": persistencetest.SQLiteURL(t), "postgres": persistencetest.PostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			step := func(sql string) { t.Helper(); persistencetest.Rows(t, url, sql) }
			withoutPhone(t, url)
			for _, drop := range []string{
				"DROP INDEX threads_assistant", "DROP INDEX calls_assistant", "DROP INDEX assistants_shared_by_age", "DROP INDEX hook_deliveries_by_size",
				"ALTER TABLE threads DROP COLUMN assistant_owner", "ALTER TABLE calls DROP COLUMN assistant_owner",
				"ALTER TABLE hook_deliveries DROP COLUMN size", "ALTER TABLE responses DROP COLUMN estimated", "ALTER TABLE assistants DROP COLUMN shared_at",
				"ALTER TABLE instances DROP COLUMN url", "ALTER TABLE instances DROP COLUMN certificate", "DELETE FROM goose_db_version WHERE version_id >= 41",
			} {
				step(drop)
			}
			at := func(day int) string { return fmt.Sprintf("'2026-01-%02dT03:04:05.000000Z'", day) }
			for _, a := range []struct {
				owner, id string
				shared    bool
				day       int
			}{{"anna", "own", false, 1}, {"eve", "own", true, 1}, {"eve", "shared", true, 3}, {"bert", "shared", true, 2}, {"eve", "young", true, 9}, {"bert", "private", false, 1}} {
				step(fmt.Sprintf(`INSERT INTO assistants (owner, id, shared, data, secret, created_at, updated_at)
					VALUES ('%s', '%s', %t, '{"name":"n"}', 's', %s, %s)`, a.owner, a.id, a.shared, at(a.day), at(a.day)))
			}
			want := map[string]string{"own": "anna", "shared": "bert", "young": "", "private": "", "operators": "", "": ""}
			for id := range want {
				step(fmt.Sprintf(`INSERT INTO threads (id, owner, title, next_seq, context, created_at, updated_at, search_title, assistant_id)
					VALUES ('t-%s', 'anna', '', 1, 0, %s, %s, '', '%[1]s')`, id, at(1), at(5)))
				step(fmt.Sprintf(`INSERT INTO calls (id, thread_id, upstream, upstream_call_id, model, voice, started_at, end_reason, turns, interruptions, replayed, instance, assistant_id, place)
					VALUES ('c-%s', 't-%[1]s', '', '', '', '', %s, '', 0, 0, 0, '', '%[1]s', 1)`, id, at(5)))
			}
			step(fmt.Sprintf(`INSERT INTO hooks (id, owner, url, events, enabled, off_reason, secret, created_at) VALUES ('h', 'anna', 'u', ' * ', true, '', '', %s)`, at(1)))
			step(fmt.Sprintf(`INSERT INTO hook_deliveries (hook_id, id, type, body, state, attempts, failures, instance, last_status, last_error, created_at)
				VALUES ('h', 'd', 'hook.test', 'zwölf', 'delivered', 0, 0, '', 0, '', %s)`, at(1)))
			persistencetest.Open(t, url, persistence.Options{})
			for table, prefix := range map[string]string{"threads": "t-", "calls": "c-"} {
				for _, row := range persistencetest.Rows(t, url, "SELECT id, assistant_owner FROM "+table) {
					if id := strings.TrimPrefix(row[0], prefix); row[1] != want[id] {
						t.Errorf("%s: the assistant %q is that of %q, want %q", table, id, row[1], want[id])
					}
				}
			}
			if got := persistencetest.Rows(t, url, "SELECT size FROM hook_deliveries"); got[0][0] != "6" {
				t.Errorf("a delivery has %s bytes, want 6", got[0][0])
			}
		})
	}
}

// withoutPhone takes back what migrations 48 and 49 make.
func withoutPhone(t *testing.T, url string) {
	t.Helper()
	persistencetest.Rows(t, url, "DROP TABLE dials")
	persistencetest.Rows(t, url, "DROP VIEW call_summary")
	persistencetest.Rows(t, url, "DROP INDEX calls_by_caller")
	for _, column := range []string{"client", "line", "caller", "direction"} {
		persistencetest.Rows(t, url, "ALTER TABLE calls DROP COLUMN "+column)
	}
}

// wantUpstreams checks that the answers of a call are said to be of the upstream that the call had.
func wantUpstreams(t *testing.T, url string) {
	t.Helper()
	of := persistencetest.Rows(t, url, "SELECT DISTINCT c.upstream, r.upstream FROM responses AS r LEFT JOIN calls AS c ON c.id = r.call_id ORDER BY r.upstream")
	testkit.Equal(t, fmt.Sprint(of), "[[NULL ] [openai openai]]", "the upstreams of calls and of their answers")
}

// wantSame compares tables' rows or definitions.
func wantSame(t *testing.T, got, want map[string][]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(merged(got, want))) {
		testkit.Equal(t, got[name], want[name], "%s is %s want %s", name, strings.Join(got[name], "\n"), strings.Join(want[name], "\n"))
	}
}

func merged[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// filledBy makes a database from what that commit left, and returns its address.
func filledBy(t *testing.T, engine string) (url string) {
	t.Helper()
	read := func(name string) []byte {
		packed, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		r, err := gzip.NewReader(bytes.NewReader(packed))
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		return content
	}
	if engine == "sqlite" {
		path := filepath.Join(t.TempDir(), "voicebridge.db")
		must(t, os.WriteFile(path, read("before-0.1.0.db.gz"), 0o600))
		return "sqlite:" + path
	}
	url = persistencetest.EmptyPostgresURL(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	_, err = conn.PgConn().Exec(t.Context(), string(read("before-0.1.0.sql.gz"))).ReadAll()
	must(t, err)
	must(t, conn.Close(t.Context()))
	return url
}

// columnsOf lists the columns of each table.
func columnsOf(t *testing.T, url string) map[string][]string {
	t.Helper()
	query := `SELECT m.name, c.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c
		WHERE m.type = 'table' AND m.name NOT LIKE 'message_index%' ORDER BY m.name, c.cid`
	if !strings.HasPrefix(url, "sqlite:") {
		query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
	}
	columns := map[string][]string{}
	for _, row := range persistencetest.Rows(t, url, query) {
		if row[1] != "lease_until" { // what a process has is its own as long as it is alive
			columns[row[0]] = append(columns[row[0]], `"`+row[1]+`"`)
		}
	}
	// What processes tell each other may be lost.
	for _, table := range []string{"goose_db_version", "sqlite_sequence", "instances", "notes"} {
		delete(columns, table)
	}
	return columns
}

// contents returns the rows of each table, sorted, with the columns that are named.
func contents(t *testing.T, url string, columns map[string][]string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for table, names := range columns {
		for _, row := range persistencetest.Rows(t, url, "SELECT "+strings.Join(names, ", ")+" FROM "+table) {
			all[table] = append(all[table], strings.Join(row, " | "))
		}
		slices.Sort(all[table])
	}
	return all
}

var (
	sqlComment = regexp.MustCompile(`--.*`)
	sqlSpace   = regexp.MustCompile(`\s*([(),]|\s)\s*`)
)

// schemaOf describes what is in the schema: tables with their columns, indexes, views, triggers and functions.
func schemaOf(t *testing.T, url string) map[string][]string {
	t.Helper()
	query := "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema"
	if !strings.HasPrefix(url, "sqlite:") {
		query = `SELECT 'table ' || table_name, concat_ws(' ', column_name, data_type, is_nullable, column_default, is_identity, ordinal_position)
				FROM information_schema.columns WHERE table_schema = 'public'
			UNION ALL SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
			UNION ALL SELECT 'constraint ' || conname, conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
			UNION ALL SELECT 'view ' || viewname, definition FROM pg_views WHERE schemaname = 'public'
			UNION ALL SELECT 'trigger ' || tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
			UNION ALL SELECT 'function ' || p.proname, pg_get_functiondef(p.oid) FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
				WHERE p.pronamespace = 'public'::regnamespace AND l.lanname = 'plpgsql'
			ORDER BY 1, 2`
	}
	schema := map[string][]string{}
	for _, row := range persistencetest.Rows(t, url, query) {
		definition := sqlSpace.ReplaceAllString(sqlComment.ReplaceAllString(row[1], ""), "$1")
		definition = strings.ReplaceAll(definition, "::text AS text", "::text") // PostgreSQL adds it to a view that was dumped
		schema[row[0]] = append(schema[row[0]], definition)
	}
	return schema
}

// TestOtherVersions: tables from before the first migration, and those of a newer program, are refused, whoever opens
// them, and stay as they are.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	for engine, newURL := range map[string]func(testing.TB) string{"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL} {
		for version, want := range map[int]string{
			27:    "version 27, and this program begins with 30: run voicebridge migrate of",
			99999: "version 99999, and this program knows none after",
		} {
			t.Run(fmt.Sprint(engine, version), func(t *testing.T) {
				t.Parallel()
				url := newURL(t)
				persistencetest.Rows(t, url, fmt.Sprintf("UPDATE goose_db_version SET version_id = %d WHERE version_id > 0", version))
				refused := func(what string, err error) {
					t.Helper()
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s = %v, want %q", what, err, want)
					}
				}
				refused("Migrate()", persistence.Migrate(t.Context(), url, persistence.Options{}))
				s := persistencetest.Open(t, url, persistence.Options{NoMigrate: true})
				_, err := s.Outdated(t.Context())
				refused("Outdated()", err)
				refused("Serve()", s.Serve(t.Context()))
				if got := persistencetest.Rows(t, url, "SELECT max(version_id) FROM goose_db_version"); got[0][0] != fmt.Sprint(version) {
					t.Errorf("the version is %v", got)
				}
			})
		}
	}
}
