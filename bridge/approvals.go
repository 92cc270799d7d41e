package bridge

import "voicebridge/thread"

// Decided tells the thread's call, if it runs here, that an approval of one of its tool calls was
// decided in the database. It returns at once; a call on another instance finds the decision within
// a second.
func (c *Calls) Decided(key thread.Key, toolCallID string) {
	if live := c.find(key); live != nil {
		live.tools.look(toolCallID)
	}
}
