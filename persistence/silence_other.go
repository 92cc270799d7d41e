//go:build !linux

package persistence

import (
	"syscall"
	"time"
)

// limitSilence returns nil: only Linux has the option.
func limitSilence(time.Duration) func(string, string, syscall.RawConn) error { return nil }
