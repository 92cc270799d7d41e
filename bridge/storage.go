package bridge

import (
	"voicebridge/bridge/internal/session"
	"voicebridge/thread"
)

// Saved takes messages that are now in the database.
func (c *Calls) Saved(key thread.Key, messages []thread.Message) {
	if live := c.find(key); live != nil {
		for _, m := range messages {
			live.saved(m)
		}
	}
}

// StorageDelayed takes the number of changes that wait for the database, and 0 once none do. All
// live calls tell their browsers.
func (c *Calls) StorageDelayed(pending int) {
	c.delayed.Store(pending > 0)
	tell := (*call).offer
	if pending == 0 {
		c.unsaved.saved()
		tell = (*call).post // nothing follows that would say it
	}
	for _, live := range c.all() {
		tell(live, session.StorageDelayed{Pending: pending})
	}
}
