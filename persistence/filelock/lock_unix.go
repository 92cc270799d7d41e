//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Open opens a file, which it creates if it is missing, and locks it; ErrLocked if another process
// has it. Close releases the lock, and so does the system when the process dies. The file itself
// stays: if it were removed, two processes could lock two files of the same name.
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

// Lock locks an open file; ErrLocked if another process has it.
func Lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return err
}

// Close unlocks and closes a file. Closing alone leaves it locked as long as a child process that is
// just being started has it open, too.
func Close(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
