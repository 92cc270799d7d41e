package persistence

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound means that the thread, message or call does not exist or belongs to another
	// owner: callers cannot tell the two apart.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that a unique rule was broken: an id is taken, or a thread already has a
	// live call.
	ErrConflict = errors.New("conflict")
	// ErrInvalid means that the input cannot be stored; Reason says why.
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
