package bridge

import "voicebridge/persistence"

// Decided tells the thread's call, if it is here, that the question about one of its
// tool calls was answered in the database. It returns at once; a call of another
// instance finds the answer within a second.
func (c *Calls) Decided(key persistence.Key, toolCallID string) {
	if live := c.find(key); live != nil {
		live.tools.look(toolCallID)
	}
}
