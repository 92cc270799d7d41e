package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Provider is a language model that answers by text. It must be safe for concurrent use. One that does not accept every
// request says so in a method Accepts(model string) Accepts. One that may take long to begin an answer says so in a
// method Patience() time.Duration.
type Provider interface {
	// Name returns the provider's name in settings and records.
	Name() string
	// Stream sends one request and yields the answer as it comes. The last delta has Stop set. An
	// error ends the sequence; it is an *Error if the provider said what is wrong. Leaving the loop
	// early, or the end of ctx, ends the request. The sequence can be used once.
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Request is one request to a provider.
type Request struct {
	Model string
	// System is the system prompt. Keep it the same in all requests of a conversation, because
	// providers cache prefixes.
	System string
	// Messages are the conversation, oldest first. An assistant message with tool calls is followed
	// at once by one tool message for each call, in order.
	Messages []Message
	Tools    []Tool
	// NeedsTools means that an answer without the tools is of no use: a model that calls none refuses the request.
	NeedsTools bool
	// MustCall means that the answer is to call one of the tools. A provider that cannot make sure of it, or a model that
	// refuses to be told, may answer otherwise.
	MustCall bool
	// Schema is a JSON schema of an object which the answer's text must be; nil: any text. A provider that cannot make
	// sure of it, or does not take this schema, may answer otherwise, or with KindBadRequest.
	Schema json.RawMessage
	// MaxTokens limits the answer; 0 leaves it to the provider.
	MaxTokens int
	// Temperature and TopP control sampling; nil leaves them to the provider.
	Temperature, TopP *float64
}

// Tool is a function that the model may call.
type Tool struct {
	// Name is unique in a request: [A-Za-z0-9_-], at most 64 characters, of which the first is a letter.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// Role says who a message of a request is from.
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
	// Images are those of a user's message, sent before its text, or of a tool's result, sent after
	// it.
	Images []Image
	// ToolCalls are the calls that an assistant message makes.
	ToolCalls []ToolCall
	// ToolCallID and ToolName say which call a tool message answers; Failed that the answer is an
	// error.
	ToolCallID string
	ToolName   string
	Failed     bool
}

// Image is a picture.
type Image struct {
	// MediaType is image/png, image/jpeg, image/webp or image/gif.
	MediaType string
	// Data is the content of the file.
	Data []byte
}

// ImageLimits says which images a model accepts. The zero value means all.
type ImageLimits struct {
	// Types are the media types; none means all of Image.MediaType.
	Types []string
	// Bytes limits Image.Data, Side each side in pixels; 0 means no limit.
	Bytes, Side int
}

// Empty reports whether a message is empty: it has neither text nor images, calls nothing and
// answers no call.
func (m Message) Empty() bool {
	return m.Role != RoleTool && strings.TrimSpace(m.Content) == "" && len(m.Images) == 0 && len(m.ToolCalls) == 0
}

// ToolCall is one function call of a model.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is what the model wrote: usually a JSON object, but do not rely on that.
	Arguments string
	// Metadata is what the provider must get back with the call, such as Google's thoughtSignature;
	// may be nil.
	Metadata json.RawMessage
}

// Delta is a piece of an answer. Any of its fields may be set; none is when the provider only shows that it is at work.
type Delta struct {
	// Text is the next piece of text.
	Text string
	// Reasoning is the next piece of what the model thinks before it answers, if the provider sends
	// that.
	Reasoning string
	// Unsaid means that all text of the answer so far was reasoning, too, as only shows now.
	Unsaid bool
	// ToolCall is a complete call.
	ToolCall *ToolCall
	// Usage is set when the provider has counted tokens; the last one counts.
	Usage *Usage
	// Without names what the model has just refused, for the first time: this is the answer to a request without it.
	Without string
	// Stop ends the answer.
	Stop StopReason
}

// StopReason says why an answer ended.
type StopReason string

// The reasons why an answer ends.
const (
	StopEnd       StopReason = "stop"       // the model is done
	StopToolCalls StopReason = "tool_calls" // it calls tools
	StopLength    StopReason = "length"     // the token limit was reached
	StopFilter    StopReason = "filter"     // the provider's content filter
	StopRefusal   StopReason = "refusal"    // the same, which refuses all later requests with what was asked, too
)

// Usage counts the tokens of one request.
type Usage struct {
	InputTokens  int64
	OutputTokens int64
	CachedTokens int64 // included in the input
	// CacheWrites are those of the input that were written into a cache, and HourWrites those of them that are kept for
	// an hour, where these have prices of their own (Anthropic).
	CacheWrites, HourWrites int64
	// Raw is the object as received.
	Raw json.RawMessage
}

// ErrorKind says what a user or the queue can do about an error.
type ErrorKind string

// The kinds of an Error.
const (
	KindAuth       ErrorKind = "auth"        // the key is missing or wrong: somebody must change it
	KindQuota      ErrorKind = "quota"       // no credit left: somebody must pay
	KindRate       ErrorKind = "rate"        // too many requests: try again later
	KindTooLong    ErrorKind = "too_long"    // the conversation is too long
	KindOverloaded ErrorKind = "overloaded"  // the provider is in trouble: try again later
	KindBadRequest ErrorKind = "bad_request" // the provider rejects it: a bug or a wrong model
	// the provider refuses what was asked, and later requests with it, as with StopRefusal
	KindRefused     ErrorKind = "refused"
	KindUnavailable ErrorKind = "unavailable" // it is unreachable, or the answer was cut off
	KindTimeout     ErrorKind = "timeout"     // nothing came in time
)

// Error is a provider's failure.
type Error struct {
	Kind     ErrorKind
	Provider string
	// Message tells the user what happened, in plain words and without secrets.
	Message string
	// Status is the HTTP status, 0 without one.
	Status int
	// Param names the part of the request at fault, if the server names it in a field.
	Param string
	// Said is all that the server says of it, in lower case.
	Said string
	// RetryAfter is how long the provider asks to wait; 0 if it did not say.
	RetryAfter time.Duration
	// Err is the cause, with secrets masked; may be nil.
	Err error
}

// Error returns the provider, the kind and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Provider, e.Kind, e.Message) }

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.Err }

// Transient reports whether the same request may succeed later without any action by a person.
func (e *Error) Transient() bool {
	switch e.Kind {
	case KindRate, KindOverloaded, KindUnavailable, KindTimeout:
		return true
	case KindAuth, KindQuota, KindTooLong, KindBadRequest, KindRefused:
	}
	return false
}
