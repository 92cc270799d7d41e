package spool

import (
	"os"
	"syscall"
)

// reserveDisk allocates disk space for the file, so that some changes still fit when the disk is
// full. If that is not possible, the file grows with use.
func reserveDisk(f *os.File, bytes int64) { _ = syscall.Fallocate(int(f.Fd()), 0, 0, bytes) }
