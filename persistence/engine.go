package persistence

import (
	"context"

	"voicebridge/persistence/internal/pgdb"
)

// queries are the generated queries. The structs of PostgreSQL's package stand
// for both engines; SQLite's are equal to them and are converted.
type queries = pgdb.Querier

// engine is one database.
type engine interface {
	// read gives queries that see what is committed.
	read() queries
	// write runs fn in one transaction, which an error of fn rolls back.
	write(ctx context.Context, fn func(queries) error) error
	// lock takes the lock of a file that only one process may serve.
	lock() error
	// follow begins to tell others only what they want to hear and, if listen, to
	// hear them. errNoNotes says that nothing will come.
	follow(ctx context.Context, l *lease, listen bool) error
	// tell passes on what happened to other instances, without waiting.
	tell(n note)
	// erased makes sure that what was deleted cannot be read from the files.
	erased(ctx context.Context) error
	// problem names what an error of the driver means.
	problem(err error) problem
	// migrate brings the schema up to date.
	migrate(ctx context.Context) error
	ping(ctx context.Context) error
	close() error
}

// problem is what an error of a driver means to a caller.
type problem int

const (
	problemOther   problem = iota
	problemUnique          // a unique rule is broken
	problemNoOwner         // the thread is not there or not the owner's
	problemValue           // the database cannot hold a value
	problemAway            // it cannot be reached, or takes nothing now
)

//go:generate go run ./internal/shims internal/pgdb/querier.go sqlite_queries.go

// rows converts what a query of SQLite gives.
func rows[From, To any](from []From, err error, convert func(From) To) ([]To, error) {
	if err != nil {
		return nil, err
	}
	to := make([]To, len(from))
	for i, r := range from {
		to[i] = convert(r)
	}
	return to, nil
}
