// Package filelock locks files, so that other processes see who lives.
package filelock

import "errors"

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("locked")
