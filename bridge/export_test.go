package bridge

import "voicebridge/thread"

// Saved does in a live call what happens when a message is saved.
func Saved(c *Calls, owner, callID string, m thread.Message) { c.ofOwner(owner, callID).saved(m) }

// HoldHandOver keeps a live call from taking another browser until release is called.
func HoldHandOver(c *Calls, owner, callID string) (release func()) {
	live := c.ofOwner(owner, callID)
	live.handOver.Lock()
	return live.handOver.Unlock
}
