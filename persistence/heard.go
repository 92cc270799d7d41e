package persistence

import "strings"

// HeardText assigns the words of an answer that were heard to the parts of its full text: all of
// them unless the answer was interrupted.
type HeardText struct {
	interrupted bool
	left        string
}

// NewHeardText begins with the first part of a message.
func NewHeardText(m *Message) *HeardText {
	if m.Role != RoleAssistant || m.Metadata.HeardText == nil {
		return &HeardText{}
	}
	return &HeardText{interrupted: true, left: strings.TrimSpace(*m.Metadata.HeardText)}
}

// Next returns the heard words of the next text part.
func (h *HeardText) Next(full string) string {
	if !h.interrupted {
		return full
	}
	full = strings.TrimSpace(full)
	if rest, ok := strings.CutPrefix(h.left, full); ok {
		h.left = strings.TrimSpace(rest)
		return full
	}
	// The cut is in this part; or the heard words differ from the full text, and then they are
	// right.
	out := h.left
	h.left = ""
	return out
}
