package socket

import (
	"context"
	"sync"
)

// Set tracks open sockets, because the HTTP server forgets a connection that became a socket. It is
// safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	closed bool
	next   int
	ends   map[int]context.CancelCauseFunc
	wg     sync.WaitGroup
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{ends: make(map[int]context.CancelCauseFunc)} }

// Enter returns a context that ends with the server; leave must be called when the socket is done.
func (s *Set) Enter(parent context.Context) (ctx context.Context, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, false
	}
	ctx, end := context.WithCancelCause(parent)
	id := s.next
	s.next++
	s.ends[id] = end
	s.wg.Add(1)
	return ctx, func() {
		s.mu.Lock()
		delete(s.ends, id)
		s.mu.Unlock()
		end(nil)
		s.wg.Done()
	}, true
}

// Close ends all sockets and waits for them until ctx ends.
func (s *Set) Close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	for _, end := range s.ends {
		end(ErrShutdown)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Count returns how many sockets are open.
func (s *Set) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends)
}
