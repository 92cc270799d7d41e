package wsserver

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

// MaxEvent is the largest event in bytes, either way.
const MaxEvent = 4 << 20

const (
	// highWater is how many bytes of events wait before Send does.
	highWater = 1 << 20
	// maxUnread is how much sound may wait for a client that reads too slowly, in ms.
	maxUnread = 30_000
)

// queue holds what goes to the client, in order.
type queue struct {
	mu     sync.Mutex
	items  []outgoing
	bytes  int // of events
	ms     int // of sound
	closed bool
	gaveUp sync.Once
	wake   chan struct{} // holds a token when there is something to send
	room   chan struct{} // holds a token when events have been sent
}

// outgoing is an event, or sound in one: so many ms.
type outgoing struct {
	data []byte
	ms   int
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (q *queue) hasRoom(bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes == 0 || q.bytes+bytes <= highWater
}

func (q *queue) event(data []byte) { q.add(outgoing{data: data}) }

func (q *queue) sound(data []byte, ms int) { q.add(outgoing{data, ms}) }

func (q *queue) add(o outgoing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.items = append(q.items, o)
	if q.ms += o.ms; o.ms == 0 {
		q.bytes += len(o.data)
	}
	signal(q.wake)
}

// silence drops the sound that was not sent.
func (q *queue) silence() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.ms = slices.DeleteFunc(q.items, func(o outgoing) bool { return o.ms > 0 }), 0
}

// next removes what is to be sent next; it is nil if there is nothing. last means that nothing will come.
func (q *queue) next() (data []byte, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil, q.closed
	}
	o := q.items[0]
	q.items[0] = outgoing{}
	q.items = q.items[1:]
	if q.ms -= o.ms; o.ms == 0 {
		q.bytes -= len(o.data)
		signal(q.room)
	}
	return o.data, false
}

// waiting returns how much sound waits.
func (q *queue) waiting() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Duration(q.ms) * time.Millisecond
}

func (q *queue) overflows() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ms > maxUnread
}

// giveUp takes nothing more, and calls slow the first time.
func (q *queue) giveUp(slow func()) {
	q.gaveUp.Do(func() {
		q.mu.Lock()
		q.closed, q.items = true, nil
		q.bytes, q.ms = 0, 0
		q.mu.Unlock()
		if slow != nil {
			go slow() // it may wait for the call, which may wait for us
		}
	})
}

// close takes nothing more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	signal(q.wake)
}

func newID(prefix string) string { return prefix + rand.Text() }
