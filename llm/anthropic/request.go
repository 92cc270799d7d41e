package anthropic

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// The roles of the API.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// body is a request on the wire.
type body struct {
	Model       string          `json:"model"`
	MaxTokens   int             `json:"max_tokens"`
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	System      []block         `json:"system,omitempty"`
	Tools       []tool          `json:"tools,omitempty"`
	ToolChoice  json.RawMessage `json:"tool_choice,omitempty"`
	Messages    []message       `json:"messages"`
	Stream      bool            `json:"stream"`
}

// message is a group on the wire.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a piece of a message: a text, an image, a call, or its result.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`

	Source *source `json:"source,omitempty"` // of an image

	ID    string          `json:"id,omitempty"` // of a call
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	ToolUseID string  `json:"tool_use_id,omitempty"` // of a result
	Content   []block `json:"content,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`

	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// source is an image on the wire; its data are Base64.
type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// request writes a request.
func (p *Provider) request(req llm.Request) body {
	system, groups := wire.Alternate(req)
	out := body{Model: req.Model, MaxTokens: req.MaxTokens, Temperature: req.Temperature, TopP: req.TopP, Tools: tools(req.Tools), Stream: true}
	if out.MaxTokens <= 0 {
		out.MaxTokens = defaultMaxTokens
	}
	for _, words := range system {
		out.System = append(out.System, text(words))
	}
	for _, group := range groups {
		out.Messages = append(out.Messages, content(group))
	}
	if last := &out.Messages[len(out.Messages)-1]; last.Role == roleAssistant {
		trim(last)
	}
	if len(out.Tools) == 0 {
		// Calls in the history are refused unless the request has tools.
		if out.Tools = formerTools(req.Messages); len(out.Tools) > 0 {
			out.ToolChoice = json.RawMessage(`{"type":"none"}`)
		}
	}
	if p.config.Cache && goesOn(req) {
		mark(&out)
	}
	return out
}

func text(words string) block { return block{Type: "text", Text: words} }

// content writes a group: the results of all calls, then images and texts, then calls.
func content(group wire.Group) message {
	out := message{Role: roleUser}
	if group.Model {
		out.Role = roleAssistant
	}
	for _, m := range group.Messages {
		if m.Role == llm.RoleTool {
			out.Content = append(out.Content, result(m))
			continue
		}
		out.Content = append(out.Content, images(m)...)
		if strings.TrimSpace(m.Content) != "" {
			out.Content = append(out.Content, text(m.Content))
		}
		for _, c := range m.ToolCalls {
			out.Content = append(out.Content, call(c))
		}
	}
	return out
}

// images writes the images of a message.
func images(m llm.Message) []block {
	var out []block
	for _, i := range m.Images {
		out = append(out, block{Type: "image", Source: &source{Type: "base64", MediaType: i.MediaType, Data: i.Data}})
	}
	return out
}

// trim removes spaces from the end of a text that the model should continue: the API refuses them.
func trim(m *message) {
	last := &m.Content[len(m.Content)-1]
	last.Text = strings.TrimRight(last.Text, " \t\r\n")
}

// goesOn reports whether a request with the same beginning may follow: there are tools, whose
// results will come back, or it is not the first of its conversation.
func goesOn(req llm.Request) bool { return len(req.Tools) > 0 || len(req.Messages) > 1 }

// mark sets the two marks up to which the prefix is cached: after the tools and the system prompt,
// which are the same in all turns of a thread, and after the last message, which the next round and
// the next turn share.
func mark(b *body) {
	control := &cacheControl{Type: "ephemeral"}
	if n := len(b.System); n > 0 {
		b.System[n-1].CacheControl = control
	}
	last := b.Messages[len(b.Messages)-1].Content
	last[len(last)-1].CacheControl = control
}
