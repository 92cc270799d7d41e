package persistence

import (
	"context"
	"errors"

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
	// writeForDead is write for what an instance left behind. It returns
	// errAlive, without running fn, while that instance serves the database.
	writeForDead(ctx context.Context, instance string, fn func(queries) error) error
	// serve takes the lock that says that this instance lives, and starts to
	// follow what other instances do.
	serve(ctx context.Context) error
	// tell passes on what happened to other instances, without waiting.
	tell(n note)
	// problem names what an error of the driver means.
	problem(err error) problem
	// migrate brings the schema up to date.
	migrate(ctx context.Context) error
	ping(ctx context.Context) error
	close() error
}

// errAlive says that the instance still serves the database.
var errAlive = errors.New("instance is alive")

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
