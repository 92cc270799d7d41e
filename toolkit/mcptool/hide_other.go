//go:build !linux

package mcptool

// HideProcess does nothing on this system.
func HideProcess() error { return nil }
