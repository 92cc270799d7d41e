package thread

import "strings"

// HeardText divides the heard words of an interrupted answer among its text parts. Of any other
// message, each part counts as heard in full.
type HeardText struct {
	interrupted bool
	left        string
}

// NewHeardText returns the HeardText of a message. Call Next for each of its text parts, in order.
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
	// The answer was cut off in this part; or the heard words differ from the full text, and then
	// they count.
	out := h.left
	h.left = ""
	return out
}
