package access

import (
	"context"
	"errors"
	"sync"
)

// ErrEnded is the cause that ends a socket or stream whose owner has signed out, or whose credential
// was revoked or has expired.
var ErrEnded = errors.New("signed out or expired")

// held tracks the sockets and streams that end with the session that opened them. It is safe for
// concurrent use.
type held struct {
	mu   sync.Mutex
	next int
	all  map[int]holding
}

type holding struct {
	session, owner string
	end            context.CancelCauseFunc
}

func newHeld() *held { return &held{all: make(map[int]holding)} }

func (h *held) add(x holding) (id int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id = h.next
	h.next++
	h.all[id] = x
	return id
}

func (h *held) remove(id int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, id)
}

func (h *held) end(which func(session, owner string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.all {
		if which(x.session, x.owner) {
			x.end(ErrEnded)
		}
	}
}

func (h *held) sessions() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string]bool)
	for _, x := range h.all {
		if x.session != "" {
			out[x.session] = true
		}
	}
	return out
}
