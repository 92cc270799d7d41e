package bridge

import (
	"sync"

	"voicebridge/persistence"
)

// waiters are those who want to know that a message was saved.
type waiters struct {
	mu   sync.Mutex
	byID map[string]chan persistence.Message
	gone bool
}

// wait returns a channel that gets the message, or is closed when it will not be
// saved.
func (w *waiters) wait(id string) <-chan persistence.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan persistence.Message, 1)
	if w.gone {
		close(ch)
		return ch
	}
	if w.byID == nil {
		w.byID = make(map[string]chan persistence.Message)
	}
	w.byID[id] = ch
	return ch
}

func (w *waiters) tell(m persistence.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch, ok := w.byID[m.ID]; ok {
		ch <- m
		delete(w.byID, m.ID)
	}
}

func (w *waiters) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, ch := range w.byID {
		close(ch)
	}
	w.byID = nil
}
