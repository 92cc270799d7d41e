package openai

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
)

// Limits of what is kept with a call, in bytes.
const (
	maxThoughts = 32 << 10 // of Chat Completions
	maxMetadata = 512 << 10
)

// metadata is what is kept with a call.
type metadata struct {
	// ReasoningContent is what the model thought, as servers of Chat Completions call it. It is kept with an answer's
	// first call.
	ReasoningContent string `json:"reasoning_content,omitempty"`
	// Reasoning are the thoughts of the Responses API right before the call, BeforeText those before the text of the
	// answer, kept with its first call. The model goes on with them once it has the results:
	// https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context.
	Reasoning  []thought `json:"reasoning,omitempty"`
	BeforeText []thought `json:"before_text,omitempty"`
}

// thought is a reasoning item, which only OpenAI can read.
type thought struct {
	ID               string    `json:"id"`
	Summary          []summary `json:"summary"`
	EncryptedContent string    `json:"encrypted_content"`
}

// summary is a part of what a thought tells.
type summary struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// kept returns the metadata for thoughts; nil if there are none.
func kept(thoughts string) json.RawMessage {
	if thoughts == "" {
		return nil
	}
	return encode(metadata{ReasoningContent: strings.ToValidUTF8(thoughts[:min(len(thoughts), maxThoughts)], "")})
}

// encode returns metadata as JSON; nil if there are none, or too much.
func encode(m metadata) json.RawMessage {
	raw, err := json.Marshal(m)
	if err != nil || string(raw) == "{}" || len(raw) > maxMetadata {
		return nil
	}
	return raw
}

// decode returns what is kept with a call; nothing if that is another provider's.
func decode(c llm.ToolCall) (m metadata) {
	if json.Unmarshal(c.Metadata, &m) != nil {
		return metadata{}
	}
	return m
}

// thoughts returns what the model thought before its calls.
func thoughts(calls []llm.ToolCall) string {
	if len(calls) == 0 {
		return ""
	}
	return decode(calls[0]).ReasoningContent
}
