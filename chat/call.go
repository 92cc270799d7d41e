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
	// asked says that the question about it is in the database, and told.
	asked bool
}

// record is what the table of tool calls has of a call.
func (c *call) record(messageID string) persistence.ToolCall {
	r := c.Record()
	return persistence.ToolCall{
		ID: r.ID, MessageID: messageID, ToolCallID: r.ToolCallID, Name: r.Name, Executor: r.Executor, Server: r.Server,
		Status: persistence.ToolCallStatus(r.Status), Input: r.Input, Output: r.Output, Error: r.Error,
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
}

// question is the question about a call as the database has it.
func (c *call) question() persistence.Approval {
	a, _ := c.Approval()
	r := c.Record()
	return persistence.Approval{
		ID: r.ID, ToolCallID: r.ToolCallID, Nonce: a.Nonce, AskedAt: a.AskedAt, ExpiresAt: a.ExpiresAt,
		Outcome: persistence.ApprovalOutcome(a.Outcome), Name: r.Name, Executor: r.Executor, Input: r.Input,
	}
}

// ask makes the question whether the call may run.
func (c *call) ask() { c.Ask(rand.Text(), c.Record().StartedAt) }

// event is the call as events tell it.
func (c *call) event() *EventCall {
	p := c.Part()
	return &EventCall{ID: c.Call.ID, Name: c.Call.Name, Executor: c.Entry.Executor, Dynamic: p.Dynamic}
}

// forCaller is the call as its caller gets it.
func (c *call) forCaller(provider string) llm.ToolCall {
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

// savedPart is a call as a message has it.
func savedPart(p toolkit.Part) persistence.Part {
	part := persistence.ToolPart(p.Name)
	if p.Dynamic {
		part = persistence.DynamicToolPart(p.Name)
	}
	part.ToolCallID, part.State, part.Raw = p.CallID, persistence.ToolState(p.State), p.Fields
	part.Input, part.Output, part.ErrorText = p.Input, p.Output, p.ErrorText
	return part
}
