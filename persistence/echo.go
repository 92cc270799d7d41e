package persistence

import (
	"encoding/json"
	"slices"
)

// Keys of the metadata of some messages.
const (
	// MetadataAskedBy names the tool call of another message that the message answers.
	MetadataAskedBy = "asked_by"
	// MetadataNotice is true where the text is ours, not the model's: it says what
	// went wrong.
	MetadataNotice = "notice"
)

// AskedBy is the id of the tool call that the message answers; empty for none.
func (m Message) AskedBy() string {
	var id string
	if raw := m.Metadata.Extra[MetadataAskedBy]; raw != nil && json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}

// WithoutEchoes leaves out of messages what a model would be told twice: the words
// of an answer that a tool call has asked for, where that call is there with its
// result, or with its failure and the words are a notice of it. The calls of the
// answer stay. The messages that are given do not change.
func WithoutEchoes(messages []Message) []Message {
	calls := map[string]ToolState{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.IsTool() {
				calls[p.ToolCallID] = p.State
			}
		}
	}
	kept := make([]Message, 0, len(messages))
	for _, m := range messages {
		state, notice := calls[m.AskedBy()], string(m.Metadata.Extra[MetadataNotice]) == "true"
		if m.AskedBy() != "" && (state == ToolOutputAvailable || state == ToolOutputError && notice) {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.Type == partText })
			if !slices.ContainsFunc(m.Parts, Part.IsTool) {
				continue
			}
		}
		kept = append(kept, m)
	}
	return kept
}
