package openai

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
)

// maxThoughts limits the thoughts that are kept with a call, in bytes.
const maxThoughts = 32 << 10

// metadata is what is kept with the first call of an answer.
type metadata struct {
	// ReasoningContent is what the model thought, as its server calls it.
	ReasoningContent string `json:"reasoning_content,omitempty"`
}

// kept returns the metadata for thoughts; nil if there are none.
func kept(thoughts string) json.RawMessage {
	if thoughts == "" {
		return nil
	}
	raw, err := json.Marshal(metadata{strings.ToValidUTF8(thoughts[:min(len(thoughts), maxThoughts)], "")})
	if err != nil { // a text can always be encoded
		return nil
	}
	return raw
}

// thoughts returns what the model thought before its calls.
func thoughts(calls []llm.ToolCall) string {
	var m metadata
	if len(calls) == 0 || json.Unmarshal(calls[0].Metadata, &m) != nil { // none, or another provider's
		return ""
	}
	return m.ReasoningContent
}
