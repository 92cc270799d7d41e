package persistence_test

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"voicebridge/db"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
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
	say(t, s, persistence.Key{Owner: "anna", Thread: "t2"}, "new words")
	find("new", "t2")
	persistencetest.Rows(t, url, "UPDATE messages SET search_text = 'other' WHERE id = 'm4'")
	find("other", "t1")
	if err := s.DeleteThread(t.Context(), persistence.Key{Owner: "anna", Thread: "t1"}); err != nil {
		t.Fatalf("DeleteThread() = %v", err)
	}
	find("words", "t2")
	if rows := persistencetest.Rows(t, url, "SELECT count(*) FROM message_index WHERE message_index MATCH 'words'"); rows[0][0] != "3" {
		t.Errorf("the index finds %s messages, want 3", rows[0][0])
	}
}

// upTo makes a database as an older version would have left it.
func upTo(t *testing.T, url string, version int64, statements ...string) {
	t.Helper()
	path := strings.TrimPrefix(url, "sqlite:")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	conn, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Sub(db.Migrations, "migrations/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, conn, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(fmt.Errorf("%.40s: %w", statement, err))
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}
