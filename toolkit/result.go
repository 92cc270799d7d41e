package toolkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxErrorRunes   = 2000
	maxMessageRunes = 500
	maxProgressData = 64 << 10
)

// cutBytes shortens text to at most n bytes, at a character boundary, and notes that.
func cutBytes(text string, n int) string {
	note := fmt.Sprintf("\n[cut: the text has %d bytes]", len(text))
	return Head(text, max(0, n-len(note))) + note
}

// sanitizeProgress limits what a tool reports as progress, and masks secrets, because everybody who
// follows the thread receives it.
func sanitizeProgress(c Chunk) Chunk {
	c.Message = Cut(strings.ToValidUTF8(c.Message, "\uFFFD"), maxMessageRunes)
	if !(c.Percent >= 0) { // also NaN
		c.Percent = 0
	}
	c.Percent = min(c.Percent, 100)
	if len(c.Data) > maxProgressData || !json.Valid(c.Data) || !utf8.Valid(c.Data) {
		c.Data = nil
		return c
	}
	c.Data = Mask(c.Data)
	return c
}
