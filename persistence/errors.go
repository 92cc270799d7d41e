package persistence

import "voicebridge/persistence/internal/database"

var (
	// ErrNotFound means that the thread, message or call does not exist or belongs to another
	// owner: callers cannot tell the two apart.
	ErrNotFound = database.ErrNotFound
	// ErrConflict means that a unique rule was broken: an id is taken, or a thread already has a
	// live call.
	ErrConflict = database.ErrConflict
	// ErrInvalid means that the input cannot be stored; Reason says why.
	ErrInvalid = database.ErrInvalid
	// ErrServed means that another process serves the SQLite file.
	ErrServed = database.ErrServed
	// ErrUnavailable means that the database is unreachable or takes no writes now; the operation
	// may be retried.
	ErrUnavailable = database.ErrUnavailable
	// ErrFenced means that other processes took this one for dead and closed what it had open. It
	// may not write until Cluster.Rejoin.
	ErrFenced = database.ErrFenced
	// ErrClosed means that the store was closed.
	ErrClosed = database.ErrClosed
	// ErrGone means that a command's recipient is dead. Recover closes what it had open.
	ErrGone = database.ErrGone
	// ErrQuota means that the owner has as much as is allowed.
	ErrQuota = database.ErrQuota
	// ErrBusy means that a turn is running on the thread, or a message is being sent.
	ErrBusy = database.ErrBusy
)

// Invalid returns an ErrInvalid with a reason for clients, "title: …", formatted as by fmt.Sprintf.
func Invalid(format string, args ...any) error { return database.Invalid(format, args...) }

// Reason returns what to tell clients about an ErrInvalid: "invalid title: …", without what was being
// done and without the words of the database.
func Reason(err error) string { return database.Reason(err) }
