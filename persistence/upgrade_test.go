package persistence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"voicebridge/db"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestSearchAfterAnUpgrade: what an older version has saved and indexed is found, changed
// and deleted as if this version had saved it.
func TestSearchAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	url := persistencetest.EmptySQLiteURL(t)
	upTo(t, url, 19, `INSERT INTO threads (id, owner, title, next_seq, context, created_at, updated_at, search_title) VALUES
			('t1', 'anna', '', 10, 0, '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z', ''),
			('t2', 'anna', '', 10, 0, '2026-01-02T03:04:06.000000Z', '2026-01-02T03:04:06.000000Z', '')`,
		`INSERT INTO messages (id, thread_id, seq, revision, context, role, source, status, text, parts, metadata, call_id, item_id,
				model, voice, instance, created_at, updated_at, search_text)
			SELECT 'm' || value, 't' || (value % 2 + 1), value, value, 0, 'user', 'text', 'completed', 'old words', '[]', '{}', '', '', '', '', '',
				'2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z', 'old words ' || value FROM json_each('[1, 2, 3, 4, 5]')`,
		`DELETE FROM messages WHERE id = 'm3'`)
	s := persistencetest.Open(t, url, persistence.Options{})
	find := func(query, want string) {
		t.Helper()
		found, _, err := s.Threads(t.Context(), "anna", persistence.ThreadFilter{Query: query})
		var ids []string
		for _, f := range found {
			ids = append(ids, f.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != want {
			t.Errorf("%q is found in %q, %v, want %q", query, got, err, want)
		}
	}
	find("words", "t2 t1")
	find("ords 4", "t1")
	find("words old", "t2 t1")
	say(t, s, thread.Key{Owner: "anna", Thread: "t2"}, "new words")
	find("new", "t2")
	indexAll(t, s)
	find("new", "t2")
	persistencetest.Rows(t, url, "UPDATE messages SET search_text = 'other' WHERE id = 'm4'")
	find("other", "t1")
	must(t, s.DeleteThread(t.Context(), thread.Key{Owner: "anna", Thread: "t1"}))
	find("words", "t2")
	inIndex := func(want string) {
		t.Helper()
		if rows := persistencetest.Rows(t, url, "SELECT count(*) FROM message_index WHERE message_index MATCH 'words'"); rows[0][0] != want {
			t.Errorf("the index finds %s messages, want %s", rows[0][0], want)
		}
	}
	inIndex("3")
	say(t, s, thread.Key{Owner: "anna", Thread: "t2"}, "words that wait")
	inIndex("3")
	// An older version finds them all, and goes on from there.
	downTo(t, url, 22, "DELETE FROM messages WHERE id = 'm1'",
		"UPDATE messages SET search_text = 'newest words' WHERE search_text = 'words that wait'")
	inIndex("3")
	if rows := persistencetest.Rows(t, url, "SELECT count(*), count(DISTINCT number >> 32) FROM message_numbers"); rows[0][0] != "3" || rows[0][1] != "1" {
		t.Errorf("%s messages of %s threads have numbers, want 3 of 1", rows[0][0], rows[0][1])
	}
}

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

// TestStoredAfterAnUpgrade: what an older version has stored counts, and goes on to.
func TestStoredAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	for engine, url := range map[string]string{"sqlite": persistencetest.EmptySQLiteURL(t), "postgres": persistencetest.EmptyPostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			upTo(t, url, 26, `INSERT INTO threads (id, owner, title, title_by, search_title, next_seq, context, created_at, updated_at) VALUES
					('t1', 'anna', '', '', '', 10, 0, '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z'),
					('t2', 'anna', '', '', '', 10, 0, '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z')`,
				`INSERT INTO messages (id, thread_id, seq, revision, context, role, source, status, text, parts, metadata, call_id, item_id,
					model, voice, instance, created_at, updated_at, search_text) VALUES
					('m1', 't1', 1, 1, 0, 'user', 'text', 'completed', '', '[{"type": "text", "text": "some words"}]', '{}', '', '', '', '', '',
					'2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z', '')`)
			s := persistencetest.Open(t, url, persistence.Options{})
			key := thread.Key{Owner: "anna", Thread: "t1"}
			full := func(bytes int64) {
				t.Helper()
				if err := s.CheckStored(t.Context(), "anna", bytes); err != nil {
					t.Errorf("CheckStored() = %v, want room for %d", err, bytes)
				}
				if err := s.CheckStored(t.Context(), "anna", bytes-1); !errors.Is(err, persistence.ErrQuota) {
					t.Errorf("CheckStored() = %v, want no room for less than %d", err, bytes)
				}
			}
			full(40)
			if _, err := s.UpdateMessage(t.Context(), key, thread.Message{ID: "m1", Role: thread.RoleUser}); err != nil {
				t.Fatalf("UpdateMessage() = %v", err)
			}
			full(2)
		})
	}
}

// TestKindsAfterAnUpgrade: what an older version has recorded of titles and transcriptions is known as that.
func TestKindsAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	for engine, url := range map[string]string{"sqlite": persistencetest.EmptySQLiteURL(t), "postgres": persistencetest.EmptyPostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			message := func(id, role string) string {
				return fmt.Sprintf(`INSERT INTO messages (id, thread_id, seq, revision, context, role, source, status, text, parts, metadata, call_id, item_id,
					model, voice, instance, created_at, updated_at, search_text) VALUES ('%[1]s', 't1', %[2]d, %[2]d, 0, '%[3]s', 'voice', 'completed', '', '[]',
					'{}', 'c', '', '', '', '', '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z', '')`, id, len(role), role)
			}
			response := func(id, call, message, reason string) string {
				return fmt.Sprintf(`INSERT INTO responses (id, thread_id, call_id, message_id, upstream_id, model, status, status_reason, input_tokens, output_tokens,
					cached_tokens, input_audio_tokens, output_audio_tokens, instance, created_at) VALUES ('%s', 't1', '%s', '%s', '', '', 'completed', '%s',
					0, 0, 0, 0, 0, '', '2026-01-02T03:04:05.000000Z')`, id, call, message, reason)
			}
			upTo(t, url, 27, `INSERT INTO threads (id, owner, title, title_by, search_title, next_seq, context, created_at, updated_at) VALUES
					('t1', 'anna', '', '', '', 10, 0, '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z')`,
				message("asked", "user"), message("answered", "assistant"),
				response("1", "", "", "title"), response("2", "c", "asked", ""), response("3", "c", "answered", "title"), response("4", "c", "", ""),
				response("5", "", "answered", ""))
			persistencetest.Open(t, url, persistence.Options{})
			got := fmt.Sprint(persistencetest.Rows(t, url, "SELECT id, kind, status_reason FROM responses ORDER BY id"))
			if want := "[[1 title ] [2 transcription ] [3 response title] [4 response ] [5 response ]]"; got != want {
				t.Errorf("responses are %s, want %s", got, want)
			}
		})
	}
}

// upTo makes a database as an older version would have left it.
func upTo(t *testing.T, url string, version int64, statements ...string) {
	t.Helper()
	migrated(t, url, statements, func(p *goose.Provider) error {
		_, err := p.UpTo(t.Context(), version)
		return err
	})
}

// downTo takes a database back to an older version.
func downTo(t *testing.T, url string, version int64, statements ...string) {
	t.Helper()
	migrated(t, url, statements, func(p *goose.Provider) error {
		_, err := p.DownTo(t.Context(), version)
		return err
	})
}

// TestMigrationsDown takes a database back to its beginning, and up again.
func TestMigrationsDown(t *testing.T) {
	t.Parallel()
	for engine, url := range map[string]string{"sqlite": persistencetest.SQLiteURL(t), "postgres": persistencetest.PostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			downTo(t, url, 0)
			must(t, persistence.Migrate(t.Context(), url, nil))
		})
	}
}

// migrated migrates a database, then runs the statements.
func migrated(t *testing.T, url string, statements []string, migrate func(*goose.Provider) error) {
	t.Helper()
	engine, driver, dialect := "postgres", "pgx", goose.DialectPostgres
	path, isFile := strings.CutPrefix(url, "sqlite:")
	if isFile {
		engine, driver, dialect = "sqlite", "sqlite", goose.DialectSQLite3
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	}
	conn, err := sql.Open(driver, path)
	must(t, err)
	files, err := fs.Sub(db.Migrations, "migrations/"+engine)
	must(t, err)
	p, err := goose.NewProvider(dialect, conn, files)
	must(t, err)
	must(t, migrate(p))
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(fmt.Errorf("%.40s: %w", statement, err))
		}
	}
	must(t, conn.Close())
}
