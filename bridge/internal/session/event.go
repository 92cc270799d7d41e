package session

import (
	"encoding/json"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// MessageEvent announces a saved message to the browser: bridge.message.
func MessageEvent(m thread.Message) []byte {
	return encode(messageEvent{Type: "bridge.message", Message: m})
}

// EndedEvent announces to a browser that the call has ended for it: bridge.ended.
func EndedEvent(reason EndReason) []byte {
	return encode(endedEvent{Type: "bridge.ended", Reason: reason})
}

// The bridge's own events on the browser's data channel.
type (
	readyEvent struct {
		Type     string `json:"type"` // bridge.ready
		CallID   string `json:"call_id"`
		ThreadID string `json:"thread_id"`
		Replayed int    `json:"replayed"` // how many messages of the thread were replayed to the model
		// Images is true if the model can be shown images.
		Images bool `json:"images,omitempty"`
		// Duplex is true if the model listens and speaks at once: turn detection, push to talk and speed do not apply.
		Duplex   bool   `json:"duplex,omitempty"`
		Upstream string `json:"upstream,omitempty"` // which answers
		Voice    string `json:"voice,omitempty"`    // its voice
	}
	messageEvent struct {
		Type    string         `json:"type"`    // bridge.message
		Message thread.Message `json:"message"` // as the API gives it
	}
	endedEvent struct {
		Type   string    `json:"type"`   // bridge.ended, bridge.upstream.lost
		Reason EndReason `json:"reason"` // why
		// Detail is what the upstream said of it, if it ended the call.
		Detail string `json:"detail,omitempty"`
	}
	budgetEvent struct {
		Type     string  `json:"type"`      // bridge.budget.warning
		Scope    string  `json:"scope"`     // call, or owner_day: everything the owner has spent today (UTC)
		SpentUSD float64 `json:"spent_usd"` // so far, in US dollars
		LimitUSD float64 `json:"limit_usd"` // the limit at which calls end
	}
	storageEvent struct {
		Type    string `json:"type"`              // bridge.storage.delayed, bridge.storage.recovered
		Pending int    `json:"pending,omitempty"` // changes of this server's calls waiting for the database
	}
	recordingEvent struct {
		Type  string         `json:"type"`  // bridge.recording
		State RecordingState `json:"state"` // on, paused or off
	}
	renewingEvent struct {
		Type   string    `json:"type"`   // bridge.upstream.renewing
		Reason EndReason `json:"reason"` // why a new upstream session is being opened
	}
	renewedEvent struct {
		Type   string    `json:"type"`   // bridge.upstream.renewed
		Reason EndReason `json:"reason"` // that of bridge.upstream.renewing
		GapMS  int64     `json:"gap_ms"` // how long the caller was not heard, in milliseconds
		// Unheard is true if the caller's last words, if there were any, are lost and should be repeated.
		Unheard bool `json:"unheard,omitempty"`
		// Upstream is the name of the upstream that the call goes on with, if it is another one.
		Upstream string `json:"upstream,omitempty"`
		Voice    string `json:"voice,omitempty"` // that of Upstream
		// Images is true if the model can be shown images from now on.
		Images bool `json:"images,omitempty"`
		// Duplex is true if the model listens and speaks at once from now on.
		Duplex bool `json:"duplex,omitempty"`
	}
	truncatedEvent struct {
		Type         string `json:"type"` // conversation.item.truncated
		EventID      string `json:"event_id"`
		ItemID       string `json:"item_id"`
		ContentIndex int    `json:"content_index"`
		AudioEndMS   int64  `json:"audio_end_ms"`
	}
	retrievedEvent struct {
		Type    string        `json:"type"` // conversation.item.retrieved
		EventID string        `json:"event_id"`
		Item    realtime.Item `json:"item"`
	}
	usageEvent struct {
		Type       string          `json:"type"`               // bridge.usage
		ResponseID string          `json:"response_id"`        // the upstream's
		Usage      json.RawMessage `json:"usage"`              // tokens, as counted by the upstream
		CostUSD    *float64        `json:"cost_usd,omitempty"` // if the model's price is known
	}
	toolEvent struct {
		// bridge.tool.started, progress, done, failed, approval_required
		Type       string           `json:"type,omitempty"`
		ToolCallID string           `json:"tool_call_id"`
		Name       string           `json:"name"`              // the name of the tool, as the model knows it
		Executor   toolkit.Executor `json:"executor"`          // app, mcp or client
		Server     string           `json:"server,omitempty"`  // the MCP server
		Input      json.RawMessage  `json:"input,omitempty"`   // the arguments, with secrets masked
		Message    string           `json:"message,omitempty"` // of progress: what the tool is doing, in words
		Percent    *float64         `json:"percent,omitempty"` // of progress: 0 to 100
		Data       json.RawMessage  `json:"data,omitempty"`    // of progress: the result so far
		Output     json.RawMessage  `json:"output,omitempty"`  // of done: the whole result, with secrets masked
		// InputOmitted is true if the arguments are too large for the data channel; they are in the
		// thread.
		InputOmitted bool `json:"input_omitted,omitempty"`
		// OutputOmitted is true if the output is too large for the data channel; it is in the
		// thread.
		OutputOmitted bool   `json:"output_omitted,omitempty"`
		Error         string `json:"error,omitempty"` // of failed: what went wrong
		// SignIn is the MCP server to which the user has to sign in first, if that is why the tool failed.
		SignIn string `json:"sign_in,omitempty"`
		// Cancelled is true if somebody stopped the tool.
		Cancelled bool `json:"cancelled,omitempty"`
		// Nonce must be sent back with the answer to approval_required.
		Nonce string `json:"nonce,omitempty"`
		// ExpiresAt is the deadline for answering approval_required.
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	}
)

// The events of a call for the thread's watchers.
type (
	callEvent struct {
		CallID string    `json:"call_id"`
		Reason EndReason `json:"reason,omitempty"`
		// Recording means that sound of the call was kept.
		Recording bool `json:"recording,omitempty"`
	}
	// closedEvent announces that an approval is closed. Reason is empty if the user decided it.
	closedEvent struct {
		ToolCallID string `json:"tool_call_id"`
		Approved   bool   `json:"approved"`
		Reason     string `json:"reason"`
	}
)
