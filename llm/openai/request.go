package openai

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// noOutput replaces a tool's empty output, so that no server takes it for a missing field.
const noOutput = "(no output)"

// body is a request of Chat Completions on the wire.
type body struct {
	Model               string        `json:"model"`
	Messages            []message     `json:"messages"`
	MaxTokens           int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Temperature         *float64      `json:"temperature,omitempty"`
	TopP                *float64      `json:"top_p,omitempty"`
	ReasoningEffort     string        `json:"reasoning_effort,omitempty"`
	Stream              bool          `json:"stream"`
	Tools               []wire.Tool   `json:"tools,omitempty"`
	ToolChoice          string        `json:"tool_choice,omitempty"`
	StreamOptions       streamOptions `json:"stream_options,omitzero"`
	ResponseFormat      *format       `json:"response_format,omitempty"`
}

// format asks for an answer in JSON: https://developers.openai.com/api/docs/guides/structured-outputs. Strict would
// require schemas of a special form.
type format struct {
	Type string `json:"type"`
	// JSONSchema has the schema in Chat Completions; the Responses API has it beside the type.
	JSONSchema *answerSchema `json:"json_schema,omitempty"`
	*answerSchema
}

type answerSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

// formatOf returns the format that a schema asks for; nil if there is none.
func formatOf(schema json.RawMessage, flat bool) *format {
	if len(schema) == 0 {
		return nil
	}
	asked := &answerSchema{Name: "answer", Schema: schema}
	if flat {
		return &format{Type: "json_schema", answerSchema: asked}
	}
	return &format{Type: "json_schema", JSONSchema: asked}
}

// streamOptions request the usage, which streams otherwise omit.
type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// message is one message on the wire.
type message struct {
	Role       string `json:"role"`
	Content    any    `json:"content,omitempty"` // a text, parts, or nothing with calls
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`

	ReasoningContent string `json:"reasoning_content,omitempty"` // not of OpenAI itself
}

// part is a part of a message with images.
type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// mustCall is the choice of tools of an answer that is to call one.
const mustCall = "required"

// request writes a request. Roles are passed on unchanged: the API has all of ours, and allows
// system messages anywhere; not so with the templates of compatible servers.
func request(req llm.Request, compatible bool, accepts llm.Accepts) body {
	out := body{
		Model: req.Model, Tools: wire.Tools(req.Tools), Temperature: req.Temperature, TopP: req.TopP,
		Stream: true, StreamOptions: streamOptions{IncludeUsage: !accepts.NoStreamOptions},
		ResponseFormat: formatOf(req.Schema, false),
	}
	if req.MustCall {
		out.ToolChoice = mustCall
	}
	if len(req.Tools) > 0 && accepts.QuietWithTools {
		out.ReasoningEffort = "none"
	}
	req.Messages = wire.ImagesOfUsers(req.Messages)
	mistral := isMistral(req.Model)
	if compatible || mistral {
		req = wire.Fold(req, mistral || accepts.Strict)
	}
	if mistral {
		withMistralIDs(req.Messages)
	}
	if req.System != "" {
		out.Messages = append(out.Messages, message{Role: string(llm.RoleSystem), Content: req.System})
	}
	for _, m := range req.Messages {
		if !m.Empty() {
			out.Messages = append(out.Messages, write(m))
		}
	}
	settle(out.Messages, compatible)
	if compatible && !accepts.NewLimit {
		out.MaxTokens = max(0, req.MaxTokens)
	} else {
		out.MaxCompletionTokens = max(0, req.MaxTokens)
	}
	return out
}

// settle removes thoughts that a server may refuse. One that has sent some requires them with all calls,
// also with those of another model.
func settle(messages []message, compatible bool) {
	thinks := compatible && slices.ContainsFunc(messages, func(m message) bool { return m.ReasoningContent != "" })
	for i := range messages {
		switch m := &messages[i]; {
		case !thinks:
			m.ReasoningContent = ""
		case len(m.ToolCalls) > 0 && m.ReasoningContent == "":
			m.ReasoningContent = " " // it must not be empty
		}
	}
}

// write writes one message.
func write(m llm.Message) message {
	out := message{Role: string(m.Role)}
	if m.Content != "" {
		out.Content = m.Content
	}
	switch m.Role {
	case llm.RoleTool:
		out.ToolCallID = callID(m.ToolCallID)
		if m.Content == "" {
			out.Content = noOutput
		}
	case llm.RoleAssistant:
		out.ToolCalls, out.ReasoningContent = calls(m.ToolCalls), thoughts(m.ToolCalls)
	case llm.RoleUser:
		if len(m.Images) > 0 {
			out.Content = parts(m)
		}
	case llm.RoleSystem:
	}
	return out
}

// parts writes a message with images as data URLs.
func parts(m llm.Message) []part {
	var out []part
	for _, i := range m.Images {
		out = append(out, part{Type: "image_url", ImageURL: &imageURL{URL: dataURL(i)}})
	}
	if strings.TrimSpace(m.Content) != "" {
		out = append(out, part{Type: "text", Text: m.Content})
	}
	return out
}

func dataURL(i llm.Image) string {
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}
