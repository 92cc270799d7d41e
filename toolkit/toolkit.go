// Package toolkit defines what a tool is, which tools a session has, and how a model's function
// call reaches the tool that answers it.
//
// A voice call and a text turn use the same [Router]. Each package below this one has one concern:
// charts, programs, the web, MCP servers, tools that the connected client runs.
package toolkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"
)

// Executor says what runs a tool.
type Executor string

// The executors, in the order in which a name is resolved.
const (
	ExecutorClient Executor = "client" // the connected browser or app
	ExecutorApp    Executor = "app"    // this process
	ExecutorMCP    Executor = "mcp"    // an MCP server
)

// Definition describes a tool to a model.
type Definition struct {
	// Name is unique in a session: [A-Za-z0-9_-], at most 64 characters.
	Name        string `json:"name" openapi:"pattern: '^[A-Za-z0-9_-]{1,64}$'"`
	Description string `json:"description"`
	// Parameters is a JSON Schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// Call is one function call of a model.
type Call struct {
	// ID is the model's id of the call (call_id of the Realtime API).
	ID string
	// Name is the tool's name as the model wrote it.
	Name string
	// Arguments is what the model wrote: usually a JSON object, but do not rely on that.
	Arguments string
	// Owner and ThreadID say for whom and where the tool runs.
	Owner, ThreadID string
	// CallID is our id of the live voice call, empty in a text turn.
	CallID string
	// Secrets are digits that the model knows and nobody else is to know: a caller has typed them.
	Secrets []string
	// Lent are tools of the clients of whoever makes the call, which this one may offer to a model of its own.
	// [Chunk.Inner] tells of each call before it runs.
	Lent []Tool
}

// Inner is a function call that a tool makes while it runs. It is told when it begins, when the user is asked, when it
// has been approved, and when it has ended.
type Inner struct {
	Call     Call // without Owner and what follows
	Executor Executor
	Server   string
	// Asks means that the call does not run before the user has approved it; Nonce is then what a decision must bring,
	// once there is one to make.
	Asks  bool
	Nonce string
	// Result, without secrets, is the end.
	Result *Result
}

// Chunk is one element of a tool's answer: any number of progress chunks, then one with a Result.
type Chunk struct {
	// Message and Percent (0 to 100) describe progress; unused if Result is set.
	Message string
	Percent float64
	// MessageID is the id of a message that the tool itself writes to the thread. What is said later
	// comes after that message.
	MessageID string
	// Inner is the call that the chunk tells of; nil if it tells of none.
	Inner *Inner
	// Data is the progress chunk as the tool yielded it, a JSON value for watchers; may be nil.
	Data json.RawMessage
	// Result ends the answer.
	Result *Result
}

// Progress returns a progress chunk. The status in its data is loading at first and processing later.
func Progress(message string, percent float64) Chunk {
	status := "processing"
	if percent == 0 {
		status = "loading"
	}
	return Chunk{Message: message, Percent: percent, Data: Encode(struct {
		Status   string  `json:"status"`
		Message  string  `json:"message"`
		Progress float64 `json:"progress"`
	}{status, message, percent})}
}

// Result is the end of a tool's answer. A tool that fails has a result, too: the model reads what
// went wrong.
type Result struct {
	// Output is the whole result as JSON: what the thread stores and the page shows.
	Output json.RawMessage
	// Model is what the model receives: short text or JSON. Empty means Output.
	Model string
	// Error is the failure in words that a model can act on; empty on success.
	Error string
	// SignIn is the MCP server to which the user has to sign in before the tool can work; empty if that is not why it
	// failed.
	SignIn string
}

// Failed reports whether the tool failed.
func (r Result) Failed() bool { return r.Error != "" }

// ForModel returns the text that answers the model's function call.
func (r Result) ForModel() string {
	switch {
	case r.Error != "":
		return "Error: " + r.Error
	case r.Model != "":
		return r.Model
	default:
		return string(r.Output)
	}
}

// Tool is a function that a model may call.
type Tool interface {
	// Definition describes the tool to a model.
	Definition() Definition
	// Call runs the tool. The sequence ends after the chunk with a Result or after an error; a
	// consumer that stops early, or a cancelled ctx, ends the run. Arguments have passed the tool's
	// schema. The sequence can be used once.
	Call(ctx context.Context, call Call) iter.Seq2[Chunk, error]
}

// Timeouter is implemented by tools with their own time limit.
type Timeouter interface {
	// Timeout returns the limit of one call; zero means the router's.
	Timeout() time.Duration
}

// Encode returns v as JSON without HTML escapes, so that the tables are easy to read. It panics if v
// cannot be encoded.
func Encode(v any) json.RawMessage {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("encode: " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// Head returns at most the first n bytes of text, up to a character boundary.
func Head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// First returns at most the first n characters of text.
func First(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// Cut shortens text to at most n characters, with an ellipsis as the last.
func Cut(text string, n int) string {
	if len(First(text, n)) == len(text) {
		return text
	}
	return string([]rune(First(text, n-1))) + "…"
}

// Line returns text in valid UTF-8 on one line, cut to n characters.
func Line(text string, n int) string {
	return Cut(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "), n)
}

// Media is an image or a sound of a tool's result that is saved with the thread. In the result's
// output it replaces the data; the type is still image or audio (MCP specification, tools/call,
// content).
type Media struct {
	ID        string `json:"image_id"`
	MediaType string `json:"mimeType"`
	// URL is the address at which the page reads it.
	URL string `json:"url"`
	// Width and Height are those of an image, in pixels.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
}

// Word stands for it in a text for a model. name is what it is called there.
func (m Media) Word(name string) string {
	if m.Width > 0 {
		return fmt.Sprintf("[%s, %s, %d×%d]", name, m.MediaType, m.Width, m.Height)
	}
	return fmt.Sprintf("[%s, %s]", name, m.MediaType)
}

// MaxMedia limits how many images and sounds of one result are saved.
const MaxMedia = 8

// ResultImages returns the images that an output refers to, at most MaxMedia: those in its list
// content, and in resources there.
func ResultImages(output json.RawMessage) []Media {
	if !strings.Contains(string(output), `"image_id"`) {
		return nil
	}
	var result struct {
		Content []struct {
			Media
			Resource Media `json:"resource"`
		} `json:"content"`
	}
	if json.Unmarshal(output, &result) != nil {
		return nil
	}
	var images []Media
	for _, c := range result.Content {
		for _, m := range []Media{c.Media, c.Resource} {
			if m.ID != "" && strings.HasPrefix(m.MediaType, "image/") && len(images) < MaxMedia {
				images = append(images, m)
			}
		}
	}
	return images
}
