package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Provider is a language model that answers by text. Its methods may be called
// concurrently.
type Provider interface {
	// Name is the provider's name as settings and records have it.
	Name() string
	// Stream sends one request and yields the answer as it comes. The last delta
	// has Stop set. An error ends the sequence; it is an *Error wherever the
	// provider said what is wrong. Ending the loop early, or ctx, ends the
	// request. Single use.
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Request is one request to a provider.
type Request struct {
	Model string
	// System is the system prompt. Keep it the same in all requests of a
	// conversation: providers cache prefixes.
	System string
	// Messages are the conversation, oldest first. An assistant message with
	// tool calls is followed at once by one tool message for each of them, in
	// their order.
	Messages []Message
	Tools    []Tool
	// MaxTokens limits the answer; 0 leaves it to the provider.
	MaxTokens int
	// Temperature and TopP shape the choice of words; nil leaves them to the
	// provider.
	Temperature, TopP *float64
}

// Tool is a function that the model may call.
type Tool struct {
	// Name is unique in a request: [A-Za-z0-9_-], at most 64 characters.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// Role is who a message of a request is from.
type Role string

// The roles of a Message.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a request. Providers without a tool role convert it.
type Message struct {
	Role    Role
	Content string
	// Images are shown to the model with a user's message, before its text, or with a
	// tool's result, after it.
	Images []Image
	// ToolCalls are what an assistant message asks for.
	ToolCalls []ToolCall
	// ToolCallID and ToolName say which call a tool message answers; Failed that
	// it answers with an error.
	ToolCallID string
	ToolName   string
	Failed     bool
}

// Image is a picture.
type Image struct {
	// MediaType is image/png, image/jpeg, image/webp or image/gif.
	MediaType string
	// Data is the file.
	Data []byte
}

// Empty reports whether a message says nothing: it has neither words nor images,
// calls nothing and answers no call.
func (m Message) Empty() bool {
	return m.Role != RoleTool && strings.TrimSpace(m.Content) == "" && len(m.Images) == 0 && len(m.ToolCalls) == 0
}

// ToolCall is one function call of a model.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is what the model wrote: usually a JSON object, never trusted to
	// be one.
	Arguments string
	// Metadata is what the provider wants to see again with the call, such as
	// Google's thoughtSignature; nil for none.
	Metadata json.RawMessage
}

// Delta is a piece of an answer. Any of its fields may be set.
type Delta struct {
	// Text is the next piece of text.
	Text string
	// Reasoning is the next piece of what the model thinks before it answers, where
	// a provider sends that.
	Reasoning string
	// ToolCall is a call that is complete.
	ToolCall *ToolCall
	// Usage is set when the provider has counted; the last one counts.
	Usage *Usage
	// Stop ends the answer.
	Stop StopReason
}

// StopReason says why an answer ended.
type StopReason string

// The reasons for which an answer ends.
const (
	StopEnd       StopReason = "stop"       // the model is done
	StopToolCalls StopReason = "tool_calls" // it waits for tools
	StopLength    StopReason = "length"     // the limit of tokens
	StopFilter    StopReason = "filter"     // the provider's content filter
)

// Usage counts the tokens of one request.
type Usage struct {
	InputTokens  int64
	OutputTokens int64
	CachedTokens int64 // of the input
	// Raw is the object as the provider sent it.
	Raw json.RawMessage
}

// ErrorKind says what a user or the queue can do about an error.
type ErrorKind string

// The kinds of an Error.
const (
	KindAuth        ErrorKind = "auth"        // the key is missing or wrong: somebody must change it
	KindQuota       ErrorKind = "quota"       // no money left: somebody must pay
	KindRate        ErrorKind = "rate"        // too fast: try again later
	KindTooLong     ErrorKind = "too_long"    // the conversation does not fit
	KindOverloaded  ErrorKind = "overloaded"  // the provider is in trouble: try again later
	KindBadRequest  ErrorKind = "bad_request" // the provider does not take it: a defect or a wrong model
	KindUnavailable ErrorKind = "unavailable" // it cannot be reached, or broke off
	KindTimeout     ErrorKind = "timeout"     // nothing came in time
)

// Error is a provider's failure.
type Error struct {
	Kind     ErrorKind
	Provider string
	// Message is for the user, in plain words and without secrets.
	Message string
	// Status is the HTTP status, 0 without one.
	Status int
	// RetryAfter is how long the provider asks to wait; 0 when it did not say.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Provider, e.Kind, e.Message) }

func (e *Error) Unwrap() error { return e.Err }

// Transient says that the same request may succeed later without anybody doing
// anything.
func (e *Error) Transient() bool {
	switch e.Kind {
	case KindRate, KindOverloaded, KindUnavailable, KindTimeout:
		return true
	case KindAuth, KindQuota, KindTooLong, KindBadRequest:
	}
	return false
}
