package persistence

import (
	"context"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
)

// queries are the generated queries.
type queries = database.Queries

// engine is one database.
type engine interface {
	// read returns queries that see committed data.
	read() queries
	// write runs fn in one transaction, which an error of fn rolls back.
	write(ctx context.Context, fn func(queries) error) error
	// lock locks a file that only one process may serve.
	lock() error
	among
	upkeep
	// problem classifies an error of the driver.
	problem(err error) problem
	// migrate brings the schema up to date. begin, unless it is nil, is that of Options.
	migrate(ctx context.Context, begin onMigration) error
	// outdated reports whether the schema, which exists, is older than migrate would make it. If migrate would refuse
	// it, that is the error.
	outdated(ctx context.Context) (bool, error)
	// ping reads the database's clock. Without the tables it fails.
	ping(ctx context.Context) (time.Time, error)
	close() error
}

// among is what an instance needs among others on one database.
type among interface {
	// follow calls woken with what others tell, and with an empty one when something may have been missed. If nothing
	// arrives, or without listen, it returns errNoNotes.
	follow(ctx context.Context, listen bool, woken func(wake)) error
	// wake tells others something.
	wake(ctx context.Context, payloads []string) error
	// beat sends a heartbeat. No writer that waits for something holds it up.
	beat(ctx context.Context, at dbtype.Time, id string) (int64, error)
}

// upkeep is the work that can wait. A stopFunc may interrupt it.
type upkeep interface {
	// unindexed counts the finished messages that are not in the search index, and index adds them.
	unindexed(ctx context.Context) (int64, error)
	index(ctx context.Context, stop stopFunc) error
	// compact removes deleted words from the search index (with half only if they are half of it),
	// and scrub deleted data from the files beside the database. Both return
	// errMore when something is left.
	compact(ctx context.Context, half bool, stop stopFunc) error
	scrub(ctx context.Context) error
}

// problem is what a driver's error means to a caller.
type problem int

const (
	problemOther   problem = iota
	problemUnique          // a value that must be unique exists already
	problemNoOwner         // the thread does not exist or belongs to another owner
	problemValue           // the database cannot store a value
	problemAway            // the database is unreachable or takes no writes now
)

//go:generate go run ./internal/shims internal/pgdb/querier.go internal/sqlitedb/querier.go sqlite_queries.go

// stopFunc is called after each piece of work with its duration, and reports whether to stop.
type stopFunc func(took time.Duration) bool

func neverStop(time.Duration) bool { return false }
