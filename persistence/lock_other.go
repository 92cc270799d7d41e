//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package persistence

import (
	"errors"
	"os"
)

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked")

// lockFile is a best effort where there is no flock: systems that refuse to
// remove a file that is open give away that another process has it.
func lockFile(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errLocked
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
