//go:build !linux

package spool

import "os"

// reserveDisk does nothing here: the file grows as it is used.
func reserveDisk(*os.File, int64) {}
