package web

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// idleTimeout is how long a connection may wait for another request: longer than a proxy keeps it, which otherwise
// sends a request just when the server closes the connection, and answers it with a 502. nginx and AWS keep connections for one
// minute, Caddy for two, Google for ten.
const idleTimeout = 11 * time.Minute

// maxIdleConns limits the connections that wait for another request. Browsers simply open a new
// one.
const maxIdleConns = 1000

// idleConns limits idle connections. It is safe for concurrent use.
type idleConns struct {
	limit int
	mu    sync.Mutex
	order *list.List // of net.Conn, longest idle first
	at    map[net.Conn]*list.Element
}

func newIdleConns(limit int) *idleConns {
	return &idleConns{limit: limit, order: list.New(), at: make(map[net.Conn]*list.Element)}
}

// changed is an [http.Server]'s ConnState. If there are too many idle connections, it closes the
// one that has been idle longest.
func (c *idleConns) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[conn]; e != nil {
		c.order.Remove(e)
		delete(c.at, conn)
	}
	if state != http.StateIdle && state != http.StateNew {
		return
	}
	c.at[conn] = c.order.PushBack(conn)
	if c.order.Len() > c.limit {
		oldest, _ := c.order.Remove(c.order.Front()).(net.Conn)
		delete(c.at, oldest)
		_ = oldest.Close()
	}
}
