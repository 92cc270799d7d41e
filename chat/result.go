package chat

import (
	"voicebridge/llm"
	"voicebridge/persistence"
)

// Keys of the metadata of a message that only text turns write.
const (
	extraProvider = "provider"
	extraFinish   = "finish_reason"
	extraError    = "error" // {"kind","message"} of a failure
	extraNotice   = persistence.MetadataNotice
	// extraContext is what stands before the user's words in requests.
	extraContext = "context"
	// extraDiscarded is true where the message is left out of requests, because its
	// turn failed.
	extraDiscarded = "discarded"
)

// FinishReason says why a turn ended.
type FinishReason string

// The reasons for which a turn ends.
const (
	FinishStop        FinishReason = "stop"
	FinishToolCalls   FinishReason = "tool_calls" // the caller must run Result.ToolCalls
	FinishLength      FinishReason = "length"
	FinishFilter      FinishReason = "filter"
	FinishToolRounds  FinishReason = "tool_rounds" // the model wanted more rounds than it has
	FinishInterrupted FinishReason = "interrupted"
	FinishError       FinishReason = "error"
)

// Result is what came of a turn.
type Result struct {
	TurnID    string
	MessageID string
	// Text is all that the message says.
	Text string
	// ToolCalls are calls that the caller has to run now.
	ToolCalls []llm.ToolCall
	// Usage is that of all requests together.
	Usage  llm.Usage
	Status persistence.Status
	Finish FinishReason
	// Err is why the turn failed.
	Err *llm.Error
	// Shutdown says that it was interrupted because the server stops.
	Shutdown bool
	Provider string
	Model    string
	// Message is the message as it was saved; its Parts are nil when it is not saved
	// yet, because the database is away, or cannot be.
	Message persistence.Message
}
