//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"voicebridge/persistence/filelock"
)

// TestClose: closing unlocks, even while a child process that is being started still has the file open.
func TestClose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f, err := filelock.Open(path)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	if _, err := filelock.Open(path); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("Open() of a locked file = %v, want ErrLocked", err)
	}
	childs, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := filelock.Close(f); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	again, err := filelock.Open(path)
	if err != nil {
		t.Fatalf("Open() after Close() = %v", err)
	}
	if err := errors.Join(filelock.Close(again), syscall.Close(childs)); err != nil {
		t.Error(err)
	}
}
