package persistence

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"voicebridge/internal/testkit"
)

// TestLimitSilence: a connection to a machine that has disappeared breaks soon. A local socket has no such option.
func TestLimitSilence(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		ln, err := net.Listen(network, address)
		testkit.Must(t, err)
		conn, err := dialer().DialContext(t.Context(), network, ln.Addr().String())
		if err != nil {
			t.Fatalf("%s: dial: %v", network, err)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			raw, err := tcp.SyscallConn()
			testkit.Must(t, err)
			var got int
			var failed error
			testkit.Must(t, raw.Control(func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }))
			if failed != nil || got != int(maxSilence.Milliseconds()) {
				t.Errorf("the connection breaks after %d ms, %v", got, failed)
			}
		}
		for _, c := range []interface{ Close() error }{conn, ln} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
