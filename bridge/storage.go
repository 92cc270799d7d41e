package bridge

import (
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
)

// SavedLater is told of messages that have waited and are in the database now.
func (c *Calls) SavedLater(key persistence.Key, messages []persistence.Message) {
	if live := c.find(key); live != nil {
		for _, m := range messages {
			live.saved(m)
		}
	}
}

// StorageDelayed is told how many changes wait for the database, and of 0 once none
// does. The callers of all live calls hear of it.
func (c *Calls) StorageDelayed(pending int) {
	c.delayed.Store(pending > 0)
	if pending == 0 {
		c.unsaved.saved()
	}
	for _, live := range c.all() {
		live.offer(session.StorageDelayed{Pending: pending})
	}
}
