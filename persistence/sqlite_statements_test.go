package persistence

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
)

// TestStatementsAreKeptOnceTheyRanTwice runs a query in transactions, outside, by many at once, and one that fails. All
// see the same rows, and only what has run twice is kept, once.
func TestStatementsAreKeptOnceTheyRanTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := sql.Open("sqlite", sqliteDSN(filepath.Join(t.TempDir(), "x.db"), "_txlock=immediate"))
	testkit.Must(t, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE counted (n integer NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	s := newStatements(db)
	const add, count, wrong = "INSERT INTO counted VALUES (?)", "SELECT count(*) FROM counted", "SELECT n FROM nowhere"
	write := func(n int) error {
		s.prepare(ctx)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		in, rows := inTx{tx, s}, 0
		_, errAdd := in.ExecContext(ctx, add, n)
		errCount := in.QueryRowContext(ctx, count).Scan(&rows)
		if rows < n {
			errCount = errors.Join(errCount, errors.New("a row is missing"))
		}
		return errors.Join(errAdd, errCount, tx.Commit())
	}
	kept := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, stmt := range s.prepared {
			if stmt != nil {
				n++
			}
		}
		return n
	}
	for n, want := range []int{0, 0, 2, 2} {
		if err := write(n + 1); err != nil || kept() != want {
			t.Fatalf("transaction %d: %v, %d are kept, want %d", n+1, err, kept(), want)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var rows int
			if err := s.QueryRowContext(ctx, count).Scan(&rows); err != nil || rows != 4 {
				t.Errorf("%d rows, %v", rows, err)
			}
			var n int
			if err := s.QueryRowContext(ctx, wrong).Scan(&n); err == nil || errors.Is(err, sql.ErrNoRows) {
				t.Errorf("a table that is not there was read: %v", err)
			}
			if _, err := s.ExecContext(ctx, "DELETE FROM counted WHERE n > 4"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	testkit.Equal(t, kept(), 3, "are kept")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.ExecContext(ended, add, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
