package spool

import (
	"os"
	"syscall"
)

// reserveDisk takes space on the disk for the file, so that some facts find a
// place when the disk is full. Where it cannot be had the file grows as it is used.
func reserveDisk(f *os.File, bytes int64) { _ = syscall.Fallocate(int(f.Fd()), 0, 0, bytes) }
