//go:build !linux

package persistencetest

import "syscall"

// serverUser leaves the server to the user who runs the tests.
func serverUser(string) (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }
