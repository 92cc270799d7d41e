// Package database is what the rooms of package persistence know of the database: how to read and write it, by whose
// clock, and with which errors.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"voicebridge/persistence/internal/pgdb"
)

// Queries are the generated queries, with PostgreSQL's structs for both engines; SQLite's are identical and are
// converted.
type Queries = pgdb.Querier

// DB is the open database of a process. It is safe for concurrent use.
type DB interface {
	// Read returns queries that see committed data.
	Read() Queries
	// Write runs fn in one transaction, which an error of fn rolls back.
	Write(ctx context.Context, fn func(Queries) error) error
	// Instance returns the id of this process in the records that it writes.
	Instance() string
	// Shared reports whether other processes may serve the database too.
	Shared() bool
	// Fail says what failed, and adds the sentinel that describes a database error. Without an error it returns nil.
	Fail(what string, err error) error
	Clock
}

// Clock is the database's clock, as far as this process knows it.
type Clock interface {
	Now() time.Time
	// Stored converts a time of the machine's clock to the database's, and Local converts it back.
	Stored(t time.Time) time.Time
	Local(t time.Time) time.Time
}

// The errors that package persistence returns, and documents.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrInvalid     = errors.New("invalid")
	ErrServed      = errors.New("another voicebridge serves this database")
	ErrUnavailable = errors.New("database unavailable")
	ErrFenced      = errors.New("this process was taken for dead")
	ErrClosed      = errors.New("store closed")
	ErrGone        = errors.New("the process is gone")
	ErrBusy        = errors.New("the thread is busy")
	ErrQuota       = errors.New("quota is used up")
)

// invalidError is an ErrInvalid that says what is wrong: "title: …".
type invalidError string

// Invalid returns an ErrInvalid with a reason for clients, "title: …", formatted as by fmt.Sprintf.
func Invalid(format string, args ...any) error { return invalidError(fmt.Sprintf(format, args...)) }

// Error returns "invalid title: …".
func (e invalidError) Error() string { return ErrInvalid.Error() + " " + string(e) }

// Is makes it an ErrInvalid.
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

// Reason returns what to tell clients about an ErrInvalid: "invalid title: …", without what was being
// done and without the words of the database.
func Reason(err error) string {
	e, ok := errors.AsType[invalidError](err)
	if !ok {
		e = "value: it cannot be stored"
	}
	return e.Error()
}

// NewID returns a UUIDv7: ids sort by time. It panics only if the system has no random numbers.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// IsMissing reports whether a query returned no row.
func IsMissing(err error) bool { return errors.Is(err, sql.ErrNoRows) } // pgx.ErrNoRows is one too

// Rows converts the result of a query.
func Rows[From, To any](from []From, err error, convert func(From) To) ([]To, error) {
	if err != nil {
		return nil, err
	}
	to := make([]To, len(from))
	for i, r := range from {
		to[i] = convert(r)
	}
	return to, nil
}

// OrNow returns a time, or now if it is not set.
func OrNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}
