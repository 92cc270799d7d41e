//go:build !linux

package mcptool

func serveHost() {}
