//go:build unix

package mcptool

import (
	"os/signal"
	"syscall"
)

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

func makePipe(path string) error { return syscall.Mkfifo(path, 0o600) }
