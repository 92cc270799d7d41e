package session

import (
	"voicebridge/persistence"
	"voicebridge/thread"
)

// Change is one change of the thread.
type Change interface {
	// Key names what is changed: a later waiting change replaces an earlier one with the same key.
	Key() string
	// Size is the approximate number of bytes that the change takes.
	Size() int
}

// The changes that a call makes.
type (
	// SaveMessage writes a message at its place. Queued is the id of the queued message that it was, empty for none.
	SaveMessage struct {
		Message thread.Message
		Place   persistence.Place
		Queued  string
		// Continues means that the end of the message's response, which often adds to it, follows soon.
		Continues bool
	}
	// SaveDraft writes text added to a message in progress, which was saved before.
	SaveDraft struct{ persistence.Draft }
	// SaveTool writes the record of a tool call and, if the user was asked to approve it, the
	// approval with its outcome.
	SaveTool struct {
		Call     thread.ToolCall
		Approval *thread.Approval
	}
	// SaveResponse writes the record of a response.
	SaveResponse struct{ Response persistence.ResponseRecord }
	// SaveCall writes the record of the call.
	SaveCall struct{ Call persistence.CallRecord }
)

func (c SaveMessage) Key() string { return "message " + c.Message.ID }

func (c SaveDraft) Key() string { return "draft " + c.MessageID }

func (c SaveTool) Key() string { return "tool " + c.Call.ID }

func (c SaveResponse) Key() string { return "response " + c.Response.ID }

func (SaveCall) Key() string { return "call" }

// overhead is the size of a change besides its text, in bytes.
const overhead = 512

func (c SaveMessage) Size() int { return overhead + partsSize(c.Message.Parts) }

func (c SaveDraft) Size() int { return overhead + len(c.Text) }

func (c SaveTool) Size() int {
	return overhead + len(c.Call.Input) + len(c.Call.Output) + len(c.Call.Error)
}

func (SaveResponse) Size() int { return overhead }

func (SaveCall) Size() int { return overhead }

func partsSize(parts []thread.Part) int {
	n := 0
	for _, p := range parts {
		n += len(p.Text) + len(p.Input) + len(p.Output) + len(p.ErrorText)
	}
	return n
}
