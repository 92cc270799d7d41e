package thread

import (
	"encoding/json"
	"slices"
)

// Metadata keys of some messages.
const (
	// MetadataAskedBy holds the id of the tool call, in another message, that the message answers.
	MetadataAskedBy = "asked_by"
	// MetadataQueueID holds the id that a message from the queue had there.
	MetadataQueueID = "queue_id"
	// MetadataNotice is true if the text was written by this program, not by the model, to say what
	// went wrong.
	MetadataNotice = "notice"
	// MetadataFinish says why a typed answer ended, or what cut a spoken one short.
	MetadataFinish = "finish_reason"
	// MetadataDiscarded is true if models no longer read the message: its turn failed, another answer
	// has replaced it, or the user went back to what was said before it.
	MetadataDiscarded = "discarded"
	// MetadataDeleted is true if an application's server has deleted the message's item from its call.
	MetadataDeleted = "deleted"
)

// AskedBy returns the id of the tool call that the message answers; empty for none.
func (m Message) AskedBy() string {
	var id string
	if raw := m.Metadata.Extra[MetadataAskedBy]; raw != nil && json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}

// WithoutEchoes returns the messages without text that a model would otherwise see twice: an answer
// that a tool call asked for, if messages has the call with its result; and a notice, if it has the
// call with its failure. The answer's own tool calls stay. messages is not changed.
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
		state, notice := calls[m.AskedBy()], m.IsNotice()
		if m.AskedBy() != "" && (state == ToolOutputAvailable || state == ToolOutputError && notice) {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.Type == PartText })
			if !slices.ContainsFunc(m.Parts, Part.IsTool) {
				continue
			}
		}
		kept = append(kept, m)
	}
	return kept
}

// IsDiscarded reports whether models no longer read the message, see [MetadataDiscarded] and [MetadataDeleted].
func (m *Message) IsDiscarded() bool {
	return string(m.Metadata.Extra[MetadataDiscarded]) == "true" || string(m.Metadata.Extra[MetadataDeleted]) == "true"
}

// IsNotice reports whether a message's text is this program's own, see [MetadataNotice].
func (m *Message) IsNotice() bool { return string(m.Metadata.Extra[MetadataNotice]) == "true" }
