//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/filelock"
)

// TestClose: closing unlocks, even while a child process that is being started still has the file open.
func TestClose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f, err := filelock.Open(path)
	testkit.Must(t, err)
	if _, err := filelock.Open(path); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("Open() of a locked file = %v, want ErrLocked", err)
	}
	childs, err := syscall.Dup(int(f.Fd()))
	testkit.Must(t, err)
	testkit.Must(t, filelock.Close(f))
	again, err := filelock.Open(path)
	testkit.Must(t, err)
	if err := errors.Join(filelock.Close(again), syscall.Close(childs)); err != nil {
		t.Error(err)
	}
}
