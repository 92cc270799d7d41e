package ws

import "sync"

// maxInbox and maxInboxBytes are how many events may wait to be handed on before the upstream must wait.
const (
	maxInbox      = 256
	maxInboxBytes = 4 << 20
)

// inbox holds events for the one goroutine that hands them on: whoever plays sound must not wait for that.
type inbox struct {
	mu     *sync.Mutex
	events [][]byte
	bytes  int
	closed bool
	wake   chan struct{} // holds a token when there are events
	taken  chan struct{} // holds a token when there is room
}

func newInbox() inbox {
	return inbox{mu: new(sync.Mutex), wake: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func (b *inbox) push(event []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
	b.bytes += len(event)
	signal(b.wake)
}

func (b *inbox) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) >= maxInbox || b.bytes >= maxInboxBytes
}

// pop returns what waits. last means that nothing will come.
func (b *inbox) pop() (events [][]byte, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, b.events, b.bytes = b.events, nil, 0
	signal(b.taken)
	return events, b.closed
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	signal(b.wake)
}
