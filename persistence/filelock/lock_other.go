//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package filelock

import (
	"errors"
	"os"
)

// Open creates and opens a file; ErrLocked if another process has it. This is a best effort without
// flock: it works on systems that refuse to remove an open file.
func Open(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, ErrLocked
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// Lock does nothing on this system.
func Lock(*os.File) error { return nil }

// Close closes a file.
func Close(f *os.File) error { return f.Close() }
