package web

import (
	"io"
	"net"
	"net/http"
	"testing"

	"voicebridge/internal/testkit"
)

func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	c := newIdleConns(2)
	var mine, theirs []net.Conn
	for range 4 {
		a, b := net.Pipe()
		mine, theirs = append(mine, a), append(theirs, b)
		defer a.Close()
		defer b.Close()
	}
	for _, conn := range theirs[:3] {
		c.changed(conn, http.StateNew)
	}
	c.changed(theirs[1], http.StateActive) // busy ones do not count
	c.changed(theirs[3], http.StateNew)
	if _, err := mine[0].Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // net.Pipe's own
		t.Errorf("the connection idle for longest is still open: %v", err)
	}
	for _, conn := range theirs[1:] {
		c.changed(conn, http.StateClosed)
	}
	testkit.Equal(t, len(c.at)+c.order.Len(), 0, "are kept")
}
