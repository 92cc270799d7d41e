package chat

import (
	"voicebridge/llm"
	"voicebridge/thread"
)

// Keys of metadata that only text turns write.
const (
	extraProvider = "provider"
	extraFinish   = thread.MetadataFinish
	extraError    = "error" // {"kind","message"} of a failure
	extraNotice   = thread.MetadataNotice
	// extraContext is the text that precedes the user's text in requests.
	extraContext   = "context"
	extraDiscarded = thread.MetadataDiscarded
	// extraSentAs is the id by which the client knows the message.
	extraSentAs = "sent_as"
	// extraAnswers is the id of the user's message that a turn's message answers.
	extraAnswers = "answers"
	// extraRefused is true if the provider has refused to answer.
	extraRefused = "refused"
	// extraWithout names what the model has refused of the request that the message answers, and no longer gets.
	extraWithout = "without"
)

// usage is what a turn has used, in the metadata of its message.
type usage struct {
	Cached int64 `json:"cached_tokens"`
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
}

// FinishReason says why a turn ended.
type FinishReason string

// The reasons why a turn ends.
const (
	FinishStop        FinishReason = "stop"
	FinishToolCalls   FinishReason = "tool_calls" // the client must run Result.ToolCalls
	FinishLength      FinishReason = "length"
	FinishFilter      FinishReason = "filter"
	FinishToolRounds  FinishReason = "tool_rounds" // the model wanted more rounds than allowed
	FinishInterrupted FinishReason = "interrupted"
	FinishError       FinishReason = "error"
)

// Result is the result of a turn.
type Result struct {
	TurnID    string
	MessageID string
	// Text is all text of the message.
	Text string
	// ToolCalls are calls that the client has to run now.
	ToolCalls []llm.ToolCall
	// Usage is the total of all requests.
	Usage  llm.Usage
	Status thread.Status
	Finish FinishReason
	// Err is why the turn failed.
	Err *llm.Error
	// Shutdown means that it was interrupted because the server is stopping.
	Shutdown bool
	Provider string
	// Message is the saved message; its Parts are nil if it is not saved yet, because the database
	// is unavailable, or cannot be saved.
	Message thread.Message
}
