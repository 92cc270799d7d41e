package anthropic

import (
	"encoding/json"

	"voicebridge/llm"
)

// block is a piece of a message: a thought, a text, an image, a call, or its result.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`

	Thinking  *string `json:"thinking,omitempty"` // of a thought, empty if the API does not tell
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"` // of a thought that is hidden

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

// The types of blocks with thoughts.
const (
	thinking         = "thinking"
	redactedThinking = "redacted_thinking"
)

type cacheControl struct {
	Type string `json:"type"`
}

func text(words string) block { return block{Type: "text", Text: words} }

// images writes the images of a message.
func images(m llm.Message) []block {
	var out []block
	for _, i := range m.Images {
		out = append(out, block{Type: "image", Source: &source{Type: "base64", MediaType: i.MediaType, Data: i.Data}})
	}
	return out
}
