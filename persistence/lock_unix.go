//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package persistence

import (
	"errors"
	"os"
	"syscall"
)

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked")

// lockFile takes the lock of a file, which the system frees when the process
// dies. Closing the file frees it too. The file itself stays: to remove it
// would let two processes lock two files of the same name.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	return nil, errors.Join(err, f.Close())
}
