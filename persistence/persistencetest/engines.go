// Package persistencetest holds the suite that both engines of persistence pass,
// and provides real databases for the tests of other packages: SQLite in a folder of
// the test, PostgreSQL from a temporary cluster of the installed server.
package persistencetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
)

var must = testkit.Must

// Main is TestMain for a package that uses a database: it runs the tests in an
// odd time zone, stops the PostgreSQL cluster that they started, and fails when
// goroutines are left. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	time.Local = time.FixedZone("odd", 5*60*60+45*60)
	// Most of such tests wait more than they compute. Main runs before the flags are read, so -parallel changes this.
	_ = flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0))))
	code := m.Run()
	if err := stopCluster(); err != nil {
		fmt.Fprintln(os.Stderr, "persistencetest:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, "persistencetest: goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// URLs are the functions that name a database with tables and no rows, by the engine's name.
var URLs = map[string]func(testing.TB) string{"sqlite": SQLiteURL, "postgres": PostgresURL}

// Engines runs a test on each engine, in parallel. Every call of open returns a
// store on an empty database of its own, which is closed when the test ends. It
// does not Serve.
func Engines(t *testing.T, test func(t *testing.T, open func(*testing.T) *persistence.Store)) {
	t.Helper()
	for name, url := range URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T) *persistence.Store {
				t.Helper()
				return Open(t, url(t), persistence.Options{})
			})
		})
	}
}

// Open opens the store at url and closes it when the test ends.
func Open(t testing.TB, url string, opts persistence.Options) *persistence.Store {
	t.Helper()
	s, err := persistence.Open(t.Context(), url, opts)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// patience is how long a test waits for an event that must come.
const patience = 3 * time.Minute

// Within returns a context for an operation that must not take long.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("more than %v passed", patience))
	t.Cleanup(cancel)
	return ctx
}

// Start runs something, such as a user of a store, until the test ends or stop is called, and waits for its end.
func Start(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// NewThread makes a thread.
func NewThread(t testing.TB, store *persistence.Store, owner, title string) thread.Key {
	t.Helper()
	row, err := store.CreateThread(t.Context(), owner, title)
	must(t, err)
	return thread.Key{Owner: owner, Thread: row.ID}
}

// SQLiteURL names a database with tables and no rows, in a folder of the test. It is a
// copy, because making the tables takes longer than most tests.
func SQLiteURL(t testing.TB) string {
	t.Helper()
	content, err := sqliteTemplate()
	must(t, err)
	url := EmptySQLiteURL(t)
	path := strings.TrimPrefix(url, "sqlite:")
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)))
	return url
}

// SQLite opens such a database until the test ends.
func SQLite(t testing.TB) *persistence.Store {
	t.Helper()
	return Open(t, SQLiteURL(t), persistence.Options{})
}

// EmptySQLiteURL names a database that does not exist yet, in a folder of the test.
func EmptySQLiteURL(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "data", "voicebridge.db")
}

// LockSQLite keeps everyone else from writing to a SQLite database until unlock is called.
func LockSQLite(t testing.TB, url string) (unlock func()) {
	t.Helper()
	db := rawDB(t, url)
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	must(t, err)
	return func() {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		if err = errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Errorf("unlock SQLite: %v", err)
		}
	}
}

// sqliteTemplate is the file of a database with tables and no rows.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "voicebridge-sqlite-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "template.db")
	err = persistence.Migrate(context.Background(), "sqlite:"+path, persistence.Options{})
	content, read := os.ReadFile(path)
	return content, errors.Join(err, read, os.RemoveAll(dir))
})

// Rows runs a query on the database at url, as a person would with psql or
// sqlite3, and returns its rows with the cells as text: NULL for none.
func Rows(t testing.TB, url, query string) [][]string {
	t.Helper()
	_, rows := table(t, url, query)
	return rows
}
