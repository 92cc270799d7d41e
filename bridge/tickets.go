package bridge

import (
	"crypto/rand"
	"sync"
	"time"
)

// ticketLife is how long a ticket is good: the other process connects at once.
const ticketLife = 15 * time.Second

// tickets are those that were issued and not redeemed. The zero value has none.
type tickets struct {
	mu   sync.Mutex
	open map[string]ticket
}

type ticket struct {
	owner, callID string
	until         time.Time
}

func (t *tickets) issue(owner, callID string, now time.Time) (id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[string]ticket)
	}
	for id, old := range t.open {
		if now.After(old.until) {
			delete(t.open, id)
		}
	}
	id = rand.Text()
	t.open[id] = ticket{owner, callID, now.Add(ticketLife)}
	return id
}

func (t *tickets) redeem(id string, now time.Time) (owner, callID string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.open[id]
	delete(t.open, id)
	return found.owner, found.callID, ok && !now.After(found.until)
}
