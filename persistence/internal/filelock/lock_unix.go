//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Open takes the lock of a file, which the system frees when the process
// dies. Closing the file frees it too. The file itself stays: to remove it
// would let two processes lock two files of the same name.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = Lock(f); err == nil {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// Lock takes the lock of an open file, or returns ErrLocked.
func Lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return err
}
