package persistence

import "errors"

var (
	// ErrNotFound says that there is no such thread, message or call, or that it
	// is a stranger's: a caller cannot tell the two apart.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a unique rule is broken: an id is taken, or a thread
	// has a live call already.
	ErrConflict = errors.New("conflict")
	// ErrInvalid says that the input cannot be stored; the text names the reason.
	ErrInvalid = errors.New("invalid")
	// ErrServed says that another process serves the SQLite file.
	ErrServed = errors.New("another voicebridge serves this database")
	// ErrUnavailable says that the database cannot be reached, or takes nothing
	// now: the same may be tried again.
	ErrUnavailable = errors.New("database unavailable")
	// ErrFenced says that other processes took this one for dead and closed what it
	// had open: it may write no more until Store.Rejoin.
	ErrFenced = errors.New("this process was taken for dead")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("store closed")
	// ErrGone says that an instance that was asked for something is dead. Recover
	// closes what it had.
	ErrGone = errors.New("the process is gone")
)
