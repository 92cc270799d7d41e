package chat

import (
	"voicebridge/llm"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// call is one function call of the model, as a part of the message.
type call struct {
	*toolkit.Invocation
	part int // index into the message's parts
	// asked means that its approval is in the database, and announced.
	asked bool
}

// record returns the call for the table of tool calls.
func (c *call) record(messageID string) thread.ToolCall {
	r := c.Record()
	r.MessageID = messageID
	return r
}

// event returns the call for events.
func (c *call) event() *EventCall {
	p := c.Part()
	return &EventCall{
		ID: c.Call.ID, Name: c.Call.Name, Dynamic: p.Type == thread.PartDynamicTool,
		Executor: c.Entry.Executor, Server: c.Entry.Server,
	}
}

// forClient returns the call for the client that will run it.
func (c *call) forClient(provider string) llm.ToolCall {
	return llm.ToolCall{ID: c.Call.ID, Name: c.Call.Name, Arguments: c.Call.Arguments, Metadata: c.Metadata(provider)}
}
