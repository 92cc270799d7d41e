package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// minOutput is the least limit of an answer that the Responses API accepts.
const minOutput = 16

// responsesBody is a request of the Responses API on the wire. Nothing is stored by OpenAI: every request has the whole
// conversation, and thoughts come back in it, encrypted.
type responsesBody struct {
	Model           string     `json:"model"`
	Instructions    string     `json:"instructions,omitempty"`
	Tools           []flatTool `json:"tools,omitempty"`
	ToolChoice      string     `json:"tool_choice,omitempty"`
	Input           []item     `json:"input"`
	MaxOutputTokens int        `json:"max_output_tokens,omitempty"`
	Temperature     *float64   `json:"temperature,omitempty"`
	TopP            *float64   `json:"top_p,omitempty"`
	Include         []string   `json:"include,omitempty"`
	Store           bool       `json:"store"`
	Stream          bool       `json:"stream"`
	Text            textFormat `json:"text,omitzero"`
}

// textFormat is the form of the answer's text.
type textFormat struct {
	Format *format `json:"format,omitempty"`
}

// flatTool is a definition on the wire. Strict would require schemas of a special form.
type flatTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// item is a message, a call, its result or a thought on the wire.
type item struct {
	Type string `json:"type"`

	Role    string `json:"role,omitempty"` // of a message
	Content any    `json:"content,omitempty"`

	CallID    string `json:"call_id,omitempty"` // of a call and its result
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Output    any    `json:"output,omitempty"`

	ID               string    `json:"id,omitempty"` // of a thought
	Summary          []summary `json:"summary,omitzero"`
	EncryptedContent string    `json:"encrypted_content,omitempty"`
}

// contentPart is a part of a message, or a result, with images.
type contentPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// responsesRequest writes a request of the Responses API, which has all of our roles, and allows system messages
// anywhere.
func responsesRequest(req llm.Request, accepts llm.Accepts) responsesBody {
	out := responsesBody{
		Model: req.Model, Instructions: req.System, Input: []item{}, Temperature: req.Temperature, TopP: req.TopP,
		Stream: true,
		Text:   textFormat{formatOf(req.Schema, true)},
	}
	if req.MustCall {
		out.ToolChoice = mustCall
	}
	if !accepts.NoReasoning {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	if req.MaxTokens > 0 {
		out.MaxOutputTokens = max(minOutput, req.MaxTokens)
	}
	for _, d := range req.Tools {
		out.Tools = append(out.Tools,
			flatTool{Type: "function", Name: d.Name, Description: d.Description, Parameters: wire.Schema(d.Parameters)})
	}
	current := lastQuestion(req.Messages)
	for i, m := range req.Messages {
		if !m.Empty() {
			out.Input = append(out.Input, items(m, i > current)...)
		}
	}
	return out
}

// lastQuestion returns the index of the last message of a user. What follows are calls and their results.
func lastQuestion(messages []llm.Message) int {
	for i, m := range slices.Backward(messages) {
		if m.Role == llm.RoleUser {
			return i
		}
	}
	return -1
}

// items writes a message. Thoughts are for the exchange in which they came: another model, or another key, cannot read
// them.
func items(m llm.Message, thinks bool) (out []item) {
	message := item{Type: "message", Role: string(m.Role), Content: m.Content}
	switch m.Role {
	case llm.RoleTool:
		result := item{Type: "function_call_output", CallID: callID(m.ToolCallID), Output: cmp.Or(m.Content, noOutput)}
		if len(m.Images) > 0 {
			result.Output = contentParts(m)
		}
		return []item{result}
	case llm.RoleUser:
		if len(m.Images) > 0 {
			message.Content = contentParts(m)
		}
		return []item{message}
	case llm.RoleSystem:
		return []item{message}
	case llm.RoleAssistant:
	}
	if thinks && len(m.ToolCalls) > 0 {
		out = append(out, reasoning(decode(m.ToolCalls[0]).BeforeText)...)
	}
	if strings.TrimSpace(m.Content) != "" {
		out = append(out, message)
	}
	for _, c := range m.ToolCalls {
		if thinks {
			out = append(out, reasoning(decode(c).Reasoning)...)
		}
		out = append(out, item{
			Type: "function_call", CallID: callID(c.ID), Name: c.Name, Arguments: string(wire.Object(c.Arguments)),
		})
	}
	return out
}

// reasoning writes thoughts.
func reasoning(thoughts []thought) (out []item) {
	for _, t := range thoughts {
		out = append(out, item{
			Type: "reasoning", ID: t.ID, Summary: append([]summary{}, t.Summary...),
			EncryptedContent: t.EncryptedContent,
		})
	}
	return out
}

// contentParts writes a text and images, the text of a result first.
func contentParts(m llm.Message) (out []contentPart) {
	for _, i := range m.Images {
		out = append(out, contentPart{Type: "input_image", ImageURL: dataURL(i), Detail: "auto"})
	}
	text := contentPart{Type: "input_text", Text: m.Content}
	switch {
	case strings.TrimSpace(m.Content) == "":
	case m.Role == llm.RoleTool:
		out = slices.Insert(out, 0, text)
	default:
		out = append(out, text)
	}
	return out
}
