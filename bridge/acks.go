package bridge

import (
	"sync"

	"voicebridge/thread"
)

// acks notifies those who wait for a message to be saved.
type acks struct {
	mu     sync.Mutex
	byID   map[string][]chan thread.Message
	closed bool
}

// await returns a channel that gets the message, or is closed if it will not be saved.
func (a *acks) await(id string) <-chan thread.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := make(chan thread.Message, 1)
	if a.closed {
		close(ch)
		return ch
	}
	if a.byID == nil {
		a.byID = make(map[string][]chan thread.Message)
	}
	a.byID[id] = append(a.byID[id], ch)
	return ch
}

func (a *acks) saved(m thread.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ch := range a.byID[m.ID] {
		ch <- m
	}
	delete(a.byID, m.ID)
}

// close says that no more messages will be saved.
func (a *acks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, all := range a.byID {
		for _, ch := range all {
			close(ch)
		}
	}
	a.byID = nil
}
