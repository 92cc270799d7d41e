// Package database is what the rooms of package persistence know of the database: how to read and write it, by whose
// clock, and with which errors.
package database

import (
	"context"
	"time"

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
