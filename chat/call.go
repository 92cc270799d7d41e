package chat

import (
	"crypto/rand"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
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
func (c *call) record(messageID string) persistence.ToolCall {
	r := c.Record()
	return persistence.ToolCall{
		ID: r.ID, MessageID: messageID, ToolCallID: r.ToolCallID, Name: r.Name, Executor: r.Executor, Server: r.Server,
		Status: persistence.ToolCallStatus(r.Status), Input: r.Input, Output: r.Output, Error: r.Error,
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
}

// question returns the call's approval for the database.
func (c *call) question() persistence.Approval {
	a, _ := c.Approval()
	r := c.Record()
	return persistence.Approval{
		ID: r.ID, ToolCallID: r.ToolCallID, Nonce: a.Nonce, AskedAt: a.AskedAt, ExpiresAt: a.ExpiresAt,
		Outcome: persistence.ApprovalOutcome(a.Outcome), Name: r.Name, Executor: r.Executor, Input: r.Input,
	}
}

// ask opens the call's approval.
func (c *call) ask() { c.Ask(rand.Text(), c.Record().StartedAt) }

// event returns the call for events.
func (c *call) event() *EventCall {
	p := c.Part()
	return &EventCall{ID: c.Call.ID, Name: c.Call.Name, Dynamic: p.Dynamic}
}

// forClient returns the call for the client that will run it.
func (c *call) forClient(provider string) llm.ToolCall {
	return llm.ToolCall{ID: c.Call.ID, Name: c.Call.Name, Arguments: c.Call.Arguments, Metadata: c.Metadata(provider)}
}

// end gives the call its result.
func (c *call) end(result toolkit.Result, cancelled bool) {
	if cancelled {
		c.Cancel(result, time.Now())
	} else {
		c.Finish(result, time.Now())
	}
}

// savedPart returns the call for a message.
func savedPart(p toolkit.Part) persistence.Part {
	part := persistence.ToolPart(p.Name)
	if p.Dynamic {
		part = persistence.DynamicToolPart(p.Name)
	}
	part.ToolCallID, part.State, part.Raw = p.CallID, persistence.ToolState(p.State), p.Fields
	part.Input, part.Output, part.ErrorText = p.Input, p.Output, p.ErrorText
	return part
}
