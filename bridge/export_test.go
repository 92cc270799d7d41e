package bridge

import "voicebridge/persistence"

// Saved does in a live call what happens when a message is saved.
func Saved(c *Calls, owner, callID string, m persistence.Message) { c.ofOwner(owner, callID).saved(m) }
