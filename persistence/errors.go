package persistence

import "errors"

var (
	// ErrNotFound means that the thread, message or call does not exist or belongs to another
	// owner: callers cannot tell the two apart.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that a unique rule was broken: an id is taken, or a thread already has a
	// live call.
	ErrConflict = errors.New("conflict")
	// ErrInvalid means that the input cannot be stored. The text says why: "invalid title: …", or
	// "invalid: …" with the words of the database.
	ErrInvalid = errors.New("invalid")
	// ErrServed means that another process serves the SQLite file.
	ErrServed = errors.New("another voicebridge serves this database")
	// ErrUnavailable means that the database is unreachable or takes no writes now; the operation
	// may be retried.
	ErrUnavailable = errors.New("database unavailable")
	// ErrFenced means that other processes took this one for dead and closed what it had open. It
	// may not write until Store.Rejoin.
	ErrFenced = errors.New("this process was taken for dead")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store closed")
	// ErrGone means that a command's recipient is dead. Recover closes what it had open.
	ErrGone = errors.New("the process is gone")
)
