package session

import (
	"encoding/json"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// MessageEvent tells the browser of a message that is saved: bridge.message.
func MessageEvent(m persistence.Message) []byte {
	return encode(messageEvent{Type: "bridge.message", Message: m})
}

// EndedEvent tells a browser that the call has ended for it: bridge.ended.
func EndedEvent(reason EndReason) []byte {
	return encode(endedEvent{Type: "bridge.ended", Reason: reason})
}

// The bridge's own events on the browser's data channel.
type (
	readyEvent struct {
		Type     string `json:"type"` // bridge.ready
		CallID   string `json:"call_id"`
		ThreadID string `json:"thread_id"`
		Replayed int    `json:"replayed"` // how many messages of the thread the model was told
	}
	messageEvent struct {
		Type    string              `json:"type"`    // bridge.message
		Message persistence.Message `json:"message"` // as the API gives it
	}
	endedEvent struct {
		Type   string    `json:"type"`   // bridge.ended, bridge.upstream.lost
		Reason EndReason `json:"reason"` // one of those below
	}
	budgetEvent struct {
		Type     string  `json:"type"`      // bridge.budget.warning
		Scope    string  `json:"scope"`     // call, or owner_day: all that the owner has spent today (UTC)
		SpentUSD float64 `json:"spent_usd"` // so far, in US dollars
		LimitUSD float64 `json:"limit_usd"` // at which calls end
	}
	storageEvent struct {
		Type    string `json:"type"`              // bridge.storage.delayed, bridge.storage.recovered
		Pending int    `json:"pending,omitempty"` // changes of this server's calls that wait for the database
	}
	renewingEvent struct {
		Type   string    `json:"type"`   // bridge.upstream.renewing
		Reason EndReason `json:"reason"` // why a new upstream session is opened
	}
	renewedEvent struct {
		Type   string    `json:"type"`   // bridge.upstream.renewed
		Reason EndReason `json:"reason"` // that of bridge.upstream.renewing
		GapMS  int64     `json:"gap_ms"` // how long nobody heard the caller, in milliseconds
		// Unheard says that the caller's last words were lost and should be said again.
		Unheard bool `json:"unheard,omitempty"`
	}
	retrievedEvent struct {
		Type    string        `json:"type"` // conversation.item.retrieved
		EventID string        `json:"event_id"`
		Item    realtime.Item `json:"item"`
	}
	usageEvent struct {
		Type       string          `json:"type"`               // bridge.usage
		ResponseID string          `json:"response_id"`        // the upstream's
		Usage      json.RawMessage `json:"usage"`              // tokens, as the upstream counts them
		CostUSD    *float64        `json:"cost_usd,omitempty"` // where the model's price is known
	}
	toolEvent struct {
		Type       string           `json:"type,omitempty"` // bridge.tool.started, progress, done, failed, approval_required
		ToolCallID string           `json:"tool_call_id"`
		Name       string           `json:"name"`              // the tool's, as the model knows it
		Executor   toolkit.Executor `json:"executor"`          // app, mcp or client
		Server     string           `json:"server,omitempty"`  // the MCP server
		Input      json.RawMessage  `json:"input,omitempty"`   // the arguments, secrets masked
		Message    string           `json:"message,omitempty"` // of progress: what the tool does, in words
		Percent    *float64         `json:"percent,omitempty"` // of progress: 0 to 100
		Data       json.RawMessage  `json:"data,omitempty"`    // of progress: what the tool has so far
		Output     json.RawMessage  `json:"output,omitempty"`  // of done: the whole result, secrets masked
		// OutputOmitted says that the output is too large for the data channel;
		// the thread has it.
		OutputOmitted bool   `json:"output_omitted,omitempty"`
		Error         string `json:"error,omitempty"` // of failed: what went wrong
		// Cancelled says that somebody stopped the tool.
		Cancelled bool `json:"cancelled,omitempty"`
		// Nonce comes back with the answer to approval_required.
		Nonce string `json:"nonce,omitempty"`
		// ExpiresAt is until when approval_required can be answered.
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	}
)

// The events of a call for the thread's watchers.
type (
	callEvent struct {
		CallID string    `json:"call_id"`
		Reason EndReason `json:"reason,omitempty"`
	}
	// closedEvent says that a question is over. Reason is empty where the user has
	// decided it.
	closedEvent struct {
		ToolCallID string `json:"tool_call_id"`
		Approved   bool   `json:"approved"`
		Reason     string `json:"reason"`
	}
)
