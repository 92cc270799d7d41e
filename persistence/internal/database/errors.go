package database

import (
	"errors"
	"fmt"
)

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
