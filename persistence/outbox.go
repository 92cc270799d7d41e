package persistence

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/thread"
)

const (
	// maxUnlogged limits the events that wait to be written, and logRows how many rows are written or read at a time.
	maxUnlogged = 4096
	logRows     = 256
	// maxPayload is below the 8,000 bytes at which PostgreSQL refuses a NOTIFY.
	maxPayload = 7900
)

// wake tells other instances that there is something to read: a thread whose messages have changed, or that the log has
// grown (of an owner or, without one, of a thread).
type wake struct {
	From   string `json:"from,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Thread string `json:"thread,omitempty"`
	Log    bool   `json:"log,omitempty"`
}

// entry is an event of the log.
type entry struct {
	mark  string
	key   thread.Key
	event Event
}

// outbox writes the events that no transaction causes into the log, in order and in the background, gives events their
// numbers, and wakes other instances.
type outbox struct {
	origin string // distinguishes this process's events
	wake   chan struct{}
	count  atomic.Int64

	mu     sync.Mutex
	events []entry
	wakes  map[wake]struct{}

	// ending is closed to send the rest, ended when that is done; stop gives it up.
	ending, ended chan struct{}
	stop          context.CancelFunc
}

func newOutbox() *outbox {
	return &outbox{
		origin: NewID(), wake: make(chan struct{}, 1), wakes: map[wake]struct{}{}, ending: make(chan struct{}),
		ended: make(chan struct{}),
	}
}

// entry returns an event with its mark.
func (o *outbox) entry(key thread.Key, e Event) entry {
	return entry{mark: fmt.Sprint(o.origin, " ", o.count.Add(1)), key: key, event: e}
}

// publish gives an event to the hub and, if it must be logged or a watcher here has missed it, keeps it for the log:
// the order is the same.
func (o *outbox) publish(h *hub, e entry, log bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if missed := h.event(e); !missed && !log {
		return
	}
	if len(o.events) >= maxUnlogged {
		h.lose(e.key)
		return
	}
	o.events = append(o.events, e)
	signal(o.wake)
}

// tell wakes other instances.
func (o *outbox) tell(w wake) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.From = o.origin
	o.wakes[w] = struct{}{}
	signal(o.wake)
}

func (o *outbox) take() (events []entry, wakes map[wake]struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.events), logRows)
	events, wakes = o.events[:n:n], o.wakes
	o.events, o.wakes = o.events[n:], map[wake]struct{}{}
	return events, wakes
}

// restore keeps what was not sent for the next try.
func (o *outbox) restore(events []entry, wakes map[wake]struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(events, o.events...)
	for w := range wakes {
		o.wakes[w] = struct{}{}
	}
}

// end sends what is waiting, if that can be done within a time, and stops keepSending.
func (o *outbox) end(within time.Duration) {
	close(o.ending)
	select {
	case <-o.ended:
	case <-time.After(within):
	}
	o.stop()
}
