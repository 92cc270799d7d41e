//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package filelock

import (
	"errors"
	"os"
)

// Open is a best effort without flock: systems that refuse to remove an open file show that another
// process has it.
func Open(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, ErrLocked
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// Lock does nothing here.
func Lock(*os.File) error { return nil }
