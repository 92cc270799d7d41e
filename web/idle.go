package web

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxIdleConns is how many connections may wait for a next request. A browser comes
// back with a new one.
const maxIdleConns = 1000

// idleConns bounds the connections that are kept alive for nothing. Safe for
// concurrent use.
type idleConns struct {
	limit int
	mu    sync.Mutex
	order *list.List // of net.Conn, the longest idle first
	at    map[net.Conn]*list.Element
}

func newIdleConns(limit int) *idleConns {
	return &idleConns{limit: limit, order: list.New(), at: make(map[net.Conn]*list.Element)}
}

// changed is an [http.Server]'s ConnState. It closes the connection that was idle
// longest when there are too many.
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
