package persistence

import (
	"strings"
	"syscall"
	"time"
)

// tcpUserTimeout is the option TCP_USER_TIMEOUT (tcp(7)), in milliseconds.
const tcpUserTimeout = 18

// limitSilence is for [net.Dialer.Control]: it breaks a TCP connection whose other side acknowledges
// nothing for that long, if the system can.
func limitSilence(limit time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds()))
		})
	}
}
