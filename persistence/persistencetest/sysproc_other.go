//go:build !linux

package persistencetest

import "syscall"

// serverUser runs the server as the user who runs the tests.
func serverUser(string) (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }

const sharedMemory = ""

func hasRoom(string) bool { return false }
