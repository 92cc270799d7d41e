package persistence

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"voicebridge/persistence/filelock"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/sqlitedb"
)

// searchForms gives SQLite the function search_form, which migrations use, as PostgreSQL has such a function. The
// driver has one list of functions for all databases of the process.
var searchForms = sync.OnceValue(func() error {
	convert := func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		if text, ok := args[0].(string); ok {
			return searchForm(text), nil
		}
		return args[0], nil
	}
	return sqlite.RegisterDeterministicScalarFunction("search_form", 1, convert)
})

// sqliteReaders is how many readers may work beside the one writer.
const sqliteReaders = 4

type sqliteEngine struct {
	path   string
	writer *sql.DB
	reader *sql.DB
	writes *statements
	reads  *statements
	held   *os.File // the lock, while this process serves
	// compacting is held while the search index is compacted. indexed is how many messages are in
	// it, including deleted ones, or 0 if that is not known; merged is what mergeByWriters has set.
	compacting sync.Mutex
	indexed    int64
	merged     *int64
	// indexing is how many messages index adds in one transaction, which depends on their length.
	indexing atomic.Int64
}

// openSQLite opens the file, creating it and its folder if needed.
func openSQLite(ctx context.Context, path string) (*sqliteEngine, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return nil, errors.New("open database: sqlite: needs a file, as in sqlite:data/voicebridge.db")
	}
	if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("open database: choose a writable place with DATABASE_URL: %w", err)
	}
	// SQLite's own files and the lock go by the name of the file, not of a link to it.
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := searchForms(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	e := &sqliteEngine{path: path}
	if e.writer, err = sql.Open("sqlite", sqliteDSN(path, "_txlock=immediate&_pragma=secure_delete(1)")); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	e.writer.SetMaxOpenConns(1)
	if e.reader, err = sql.Open("sqlite", sqliteDSN(path, "_pragma=query_only(1)")); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), e.writer.Close())
	}
	e.reader.SetMaxOpenConns(sqliteReaders)
	e.reader.SetMaxIdleConns(sqliteReaders)
	e.writes, e.reads = newStatements(e.writer), newStatements(e.reader)
	// The writer comes first: it creates the file and sets WAL, which a reader may not.
	if err := e.writer.PingContext(ctx); err != nil {
		return nil, errors.Join(sqliteOpenError(path, err), e.close())
	}
	return e, nil
}

// makePrivate makes the file readable by this user only, because it holds conversations; SQLite
// gives its companion files the same mode.
func makePrivate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func sqliteOpenError(path string, err error) error {
	hint := "check that the folder exists and is writable"
	if se, ok := errors.AsType[*sqlite.Error](err); ok && se.Code()&0xff == sqlite3.SQLITE_NOTADB {
		hint = "the file is not an SQLite database: choose another with DATABASE_URL"
	}
	return fmt.Errorf("open database %s: %s: %w", path, hint, err)
}

// sqliteDSN returns the address with the settings of every connection.
//
// synchronous=FULL: acknowledged writes survive even a power failure. Compared with NORMAL it was
// measured to cost 0.16 ms per commit and, in groups of 32, 2 % per message (BenchmarkAppend).
func sqliteDSN(path, more string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(2)&_pragma=foreign_keys(1)&" + more
}

func (e *sqliteEngine) read() queries { return sqliteQueries{sqlitedb.New(e.reads)} }

func (e *sqliteEngine) write(ctx context.Context, fn func(queries) error) error {
	e.writes.prepare(ctx)
	tx, err := e.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err = fn(sqliteQueries{sqlitedb.New(inTx{tx, e.writes})}); err == nil {
		err = tx.Commit()
	}
	if errors.Is(err, sql.ErrTxDone) { // database/sql has rolled it back
		err = cmp.Or(ctx.Err(), err)
	}
	return err
}

func (e *sqliteEngine) follow(context.Context, bool, func(wake)) error { return nil }

func (e *sqliteEngine) beat(context.Context, dbtype.Time, string) (int64, error) { return 1, nil }

func (e *sqliteEngine) lock() error {
	lock, err := filelock.Open(e.path + ".lock")
	if errors.Is(err, filelock.ErrLocked) {
		return fmt.Errorf("serve database %s: %w: stop it, or give this one its own with DATABASE_URL", e.path,
			ErrServed)
	}
	if err != nil {
		return fmt.Errorf("serve database %s: %w", e.path, err)
	}
	e.held = lock
	return nil
}

func (e *sqliteEngine) wake(context.Context, []string) error { return nil }

func (e *sqliteEngine) problem(err error) problem {
	se, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		if errors.Is(err, context.DeadlineExceeded) {
			return problemAway
		}
		return problemOther
	}
	switch se.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return problemUnique
	case sqlite3.SQLITE_CONSTRAINT_NOTNULL, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return problemNoOwner
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return problemValue
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM:
		return problemAway
	}
	return problemOther
}

func (e *sqliteEngine) ping(ctx context.Context) (time.Time, error) {
	_, err := e.reader.ExecContext(ctx, "SELECT 1 FROM threads LIMIT 1")
	return time.Now(), err
}

func (e *sqliteEngine) close() error {
	// The writer comes last: it folds the write-ahead log into the file.
	errs := []error{e.reader.Close(), e.writer.Close()}
	if e.held != nil {
		errs = append(errs, filelock.Close(e.held))
	}
	return errors.Join(errs...)
}

func (e *sqliteEngine) outdated(ctx context.Context) (bool, error) {
	return outdated(ctx, goose.DialectSQLite3, "sqlite", e.writer)
}

func (e *sqliteEngine) migrate(ctx context.Context, begin onMigration) error {
	return migrate(ctx, begin, goose.DialectSQLite3, "sqlite", e.writer)
}
