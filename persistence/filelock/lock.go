// Package filelock locks files, so that other processes see which are alive.
package filelock

import "errors"

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked")
