package persistencetest

import (
	"database/sql"
	"errors"
	neturl "net/url"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"; persistence brings "sqlite"

	"voicebridge/persistence"
)

// rawDB opens the database behind the store's back, as a person would.
func rawDB(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, dsn = "sqlite", path+"?_pragma=busy_timeout(5000)"
	} else if u, err := neturl.Parse(url); err == nil { // behind a pooler, too
		q := u.Query()
		q.Set("default_query_exec_mode", "exec")
		u.RawQuery = q.Encode()
		dsn = u.String()
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() }) // only read from: nothing to lose
	return db
}

// table returns the columns and the rows of a query as text, NULL as "NULL".
func table(t testing.TB, url, query string) (columns []string, rows [][]string) {
	t.Helper()
	db := rawDB(t, url)
	defer db.Close() // polling would pile up connections otherwise
	result, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer result.Close()
	if columns, err = result.Columns(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for result.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(sql.NullString)
		}
		if err := result.Scan(cells...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		row := make([]string, len(columns))
		for i, c := range cells {
			if v := c.(*sql.NullString); v.Valid {
				row[i] = v.String
			} else {
				row[i] = "NULL"
			}
		}
		rows = append(rows, row)
	}
	if err := result.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return columns, rows
}

func (s suite) migrations(t *testing.T) {
	url := s.emptyURL(t)
	for range 2 { // up from empty, then nothing to do
		if err := persistence.Migrate(t.Context(), url, nil); err != nil {
			t.Fatalf("Migrate() = %v", err)
		}
	}
	for _, name := range []string{
		"threads", "messages", "tool_calls", "calls", "responses", "queued_messages", "approvals",
		"conversation_transcript", "tool_call_log", "call_summary",
	} {
		if _, rows := table(t, url, "SELECT * FROM "+name); len(rows) != 0 {
			t.Errorf("%s is not empty", name)
		}
	}
	// The queue's table has the columns that the queue needs.
	columns, _ := table(t, url, "SELECT * FROM queued_messages")
	for _, c := range []string{
		"state", "position", "lease_until", "attempts", "idempotency_key", "client_id", "image_ids", "title",
		"scheduled_at", "error", "queued_at", "sent_at",
	} {
		if !slices.Contains(columns, c) {
			t.Errorf("queued_messages has no column %s", c)
		}
	}
}

func (s suite) open(t *testing.T) {
	url := s.emptyURL(t)
	bare := Open(t, url, persistence.Options{NoMigrate: true, Instance: "me"})
	if err := bare.Ping(t.Context()); err == nil {
		t.Error("Ping() without tables = nil")
	}
	if bare.Instance() != "me" {
		t.Errorf("Instance() = %q, want me", bare.Instance())
	}
	one, two := Open(t, url, persistence.Options{}), Open(t, url, persistence.Options{})
	if one.Instance() == two.Instance() || one.Instance() == "" {
		t.Errorf("two stores are instances %q and %q", one.Instance(), two.Instance())
	}
	key := newThread(t, one, "anna")
	if _, err := two.Thread(t.Context(), key); err != nil {
		t.Errorf("Thread() of the other store = %v", err)
	}
	if _, err := one.Recover(t.Context()); err == nil {
		t.Error("Recover() without Serve = nil")
	}
	for range 2 {
		if err := one.Serve(t.Context()); err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}
	for range 2 {
		if err := one.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if _, err := one.Thread(t.Context(), key); err == nil || errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Thread() of a closed store = %v", err)
	}
	if err := two.Serve(t.Context()); err != nil {
		t.Errorf("Serve() after the other has closed = %v", err)
	}
}
