// Package uistream writes the UI message stream of Vercel's AI SDK, version 1:
// https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol.
package uistream

import (
	"encoding/json"

	"voicebridge/chat"
)

// Chunk is one chunk of the UI message stream. Readers reject keys that do not belong to its type.
type Chunk struct {
	Type       string          `json:"type"`
	MessageID  string          `json:"messageId,omitempty"`
	Metadata   any             `json:"messageMetadata,omitempty"`
	ID         string          `json:"id,omitempty"`
	Delta      *string         `json:"delta,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	ToolName   string          `json:"toolName,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	ErrorText  *string         `json:"errorText,omitempty"`
	ApprovalID string          `json:"approvalId,omitempty"`
	Dynamic    bool            `json:"dynamic,omitempty"`
	Data       any             `json:"data,omitempty"`
	Transient  bool            `json:"transient,omitempty"`
	// FinishReason is for clients of version 6 or later of the SDK: version 5 began without it, and rejects unknown
	// keys.
	FinishReason string `json:"finishReason,omitempty"`
}

// progressData is the data of a data-tool-progress chunk.
type progressData struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Message    string          `json:"message,omitempty"`
	Percent    float64         `json:"percent,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// approvalData is the data of a data-tool-approval chunk: the question with its nonce, or the
// decision.
type approvalData struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Input      json.RawMessage `json:"input,omitempty"`
	Nonce      string          `json:"nonce,omitempty"`
	Approved   *bool           `json:"approved,omitempty"`
	Reason     string          `json:"reason,omitempty"`
}

var null = json.RawMessage("null")

// translator turns a turn's events into chunks.
type translator struct {
	// explain puts a failure into words for the client.
	explain func(error) string
	// inStates means that the client has version 6 or later of the SDK: approvals are states of a tool's part, at
	// which the stream ends, and the last chunk has a reason.
	inStates bool
	// unasked are the calls about which the user will be asked, asked those about which the user is being asked, and
	// denied those that the user has refused, in a stream that asks in states.
	unasked, asked, denied map[string]bool
	// answered are the calls whose questions the client has just answered. It has everything else up to the last of
	// these questions; left is how many of them are still to come. open holds the calls that the client has, and
	// whether they have no result there.
	answered, open map[string]bool
	left           int
}

// chunksOf returns the chunks of an event, none if it is not for this client.
func (t *translator) chunksOf(e chat.Event) []Chunk {
	sent := t.left > 0
	if e.Type == chat.EventToolApproval && t.answered[e.Call.ID] {
		t.left--
	}
	chunks := t.translate(e)
	if e.Call != nil {
		if open, known := t.open[e.Call.ID]; known {
			sent = !open || e.Type == chat.EventToolInput || e.Type == chat.EventToolApproval
		}
	}
	if sent && e.Type != chat.EventStart && e.Type != chat.EventFinish {
		return nil
	}
	return chunks
}

func (t *translator) translate(e chat.Event) []Chunk {
	switch e.Type {
	case chat.EventStart:
		return []Chunk{{Type: "start", MessageID: e.MessageID}}
	case chat.EventStepStart:
		return []Chunk{{Type: "start-step"}}
	case chat.EventTextStart, chat.EventTextEnd, chat.EventReasoningStart, chat.EventReasoningEnd:
		return []Chunk{{Type: string(e.Type), ID: e.TextID}} // the protocol's own names
	case chat.EventTextDelta, chat.EventReasoningDelta:
		return []Chunk{{Type: string(e.Type), ID: e.TextID, Delta: &e.Delta}}
	case chat.EventToolInput:
		if t.inStates && e.Call.Asks {
			t.unasked[e.Call.ID] = true
		}
		return []Chunk{
			{Type: "tool-input-available", ToolCallID: e.Call.ID, ToolName: e.Call.Name, Input: orNull(e.Call.Input),
				Dynamic: e.Call.Dynamic},
		}
	case chat.EventToolApproval:
		if t.inStates {
			if !t.answered[e.Call.ID] {
				t.asked[e.Call.ID] = true
			}
			delete(t.unasked, e.Call.ID)
			return []Chunk{{Type: "tool-approval-request", ApprovalID: e.Call.Nonce, ToolCallID: e.Call.ID}}
		}
		d := approvalData{
			ToolCallID: e.Call.ID, ToolName: e.Call.Name, Input: orNull(e.Call.Input), Nonce: e.Call.Nonce,
		}
		return []Chunk{{Type: "data-tool-approval", ID: e.Call.ID, Data: d, Transient: true}}
	case chat.EventToolDecided:
		if t.inStates {
			delete(t.asked, e.Call.ID) // somebody has answered meanwhile
			if !e.Call.Approved && e.Call.Reason == "" {
				t.denied[e.Call.ID] = true
			}
			return nil
		}
		d := approvalData{
			ToolCallID: e.Call.ID, ToolName: e.Call.Name, Approved: &e.Call.Approved, Reason: e.Call.Reason,
		}
		return []Chunk{{Type: "data-tool-approval", ID: e.Call.ID, Data: d, Transient: true}}
	case chat.EventToolProgress:
		d := progressData{
			ToolCallID: e.Call.ID, ToolName: e.Call.Name, Message: e.Call.Message, Percent: e.Call.Percent,
			Data: e.Call.Data,
		}
		return []Chunk{{Type: "data-tool-progress", ID: e.Call.ID, Data: d, Transient: true}}
	case chat.EventToolOutput:
		delete(t.unasked, e.Call.ID)
		if t.denied[e.Call.ID] {
			return []Chunk{{Type: "tool-output-denied", ToolCallID: e.Call.ID}}
		}
		if e.Call.Error != "" {
			return []Chunk{
				{Type: "tool-output-error", ToolCallID: e.Call.ID, ErrorText: &e.Call.Error, Dynamic: e.Call.Dynamic},
			}
		}
		return []Chunk{
			{Type: "tool-output-available", ToolCallID: e.Call.ID, Output: orNull(e.Call.Output),
				Dynamic: e.Call.Dynamic},
		}
	case chat.EventStepFinish:
		return []Chunk{{Type: "finish-step"}}
	case chat.EventFinish:
		return t.lastChunks(e.Result)
	default:
		return nil
	}
}

// lastChunks returns the chunks that end a stream. The metadata are those of the saved message, so
// that the stream equals what is read later.
func (t *translator) lastChunks(r *chat.Result) []Chunk {
	var out []Chunk
	switch {
	case r.Err != nil:
		text := t.explain(r.Err)
		out = append(out, Chunk{Type: "error", ErrorText: &text})
	case r.Finish == chat.FinishInterrupted:
		out = append(out, Chunk{Type: "abort"})
	}
	finish := Chunk{Type: "finish"}
	if t.inStates {
		finish.FinishReason = finishReason(r.Finish)
	}
	if r.Message.Parts != nil {
		finish.Metadata = r.Message.Metadata
	}
	return append(out, finish)
}

// finishReason translates why a turn ended.
func finishReason(r chat.FinishReason) string {
	switch r {
	case chat.FinishStop:
		return "stop"
	case chat.FinishLength:
		return "length"
	case chat.FinishFilter:
		return "content-filter"
	case chat.FinishToolCalls:
		return "tool-calls"
	case chat.FinishError:
		return "error"
	case chat.FinishInterrupted, chat.FinishToolRounds:
	}
	return "other"
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return null
	}
	return raw
}
