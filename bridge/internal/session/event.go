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
		Replayed int    `json:"replayed"` // messages
	}
	messageEvent struct {
		Type    string              `json:"type"`    // bridge.message
		Message persistence.Message `json:"message"` // as the API gives it
	}
	endedEvent struct {
		Type   string    `json:"type"` // bridge.ended, bridge.upstream.lost
		Reason EndReason `json:"reason"`
	}
	budgetEvent struct {
		Type     string  `json:"type"`  // bridge.budget.warning
		Scope    string  `json:"scope"` // call, owner_day
		SpentUSD float64 `json:"spent_usd"`
		LimitUSD float64 `json:"limit_usd"`
	}
	storageEvent struct {
		Type    string `json:"type"` // bridge.storage.delayed, bridge.storage.recovered
		Pending int    `json:"pending,omitempty"`
	}
	renewingEvent struct {
		Type   string    `json:"type"` // bridge.upstream.renewing
		Reason EndReason `json:"reason"`
	}
	renewedEvent struct {
		Type   string    `json:"type"` // bridge.upstream.renewed
		Reason EndReason `json:"reason"`
		GapMS  int64     `json:"gap_ms"` // nobody heard the caller for so long
		// Unheard says that the caller should say the last words again.
		Unheard bool `json:"unheard,omitempty"`
	}
	retrievedEvent struct {
		Type    string        `json:"type"` // conversation.item.retrieved
		EventID string        `json:"event_id"`
		Item    realtime.Item `json:"item"`
	}
	usageEvent struct {
		Type       string          `json:"type"` // bridge.usage
		ResponseID string          `json:"response_id"`
		Usage      json.RawMessage `json:"usage"` // as the upstream counts
		CostUSD    *float64        `json:"cost_usd,omitempty"`
	}
	toolEvent struct {
		Type       string           `json:"type,omitempty"` // bridge.tool.started, progress, done, failed, approval_required
		ToolCallID string           `json:"tool_call_id"`
		Name       string           `json:"name"`
		Executor   toolkit.Executor `json:"executor"`
		Server     string           `json:"server,omitempty"`
		Input      json.RawMessage  `json:"input,omitempty"`
		Message    string           `json:"message,omitempty"`
		Percent    *float64         `json:"percent,omitempty"`
		Data       json.RawMessage  `json:"data,omitempty"`
		Output     json.RawMessage  `json:"output,omitempty"`
		// OutputOmitted says that the output is too large for the data channel;
		// the thread has it.
		OutputOmitted bool   `json:"output_omitted,omitempty"`
		Error         string `json:"error,omitempty"`
		// Cancelled says that a failure was somebody's wish.
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
