package toolkit

import (
	"encoding/json"
	"fmt"
	"iter"
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

// Drain reads a call's sequence to its end and returns its result. Progress goes to onProgress,
// which may be nil. A sequence with an error, or without a result, is a failure. Of several
// successes the last counts; the first failure is final.
func Drain(seq iter.Seq2[Chunk, error], onProgress func(Chunk)) Result {
	var last *Result
	for c, err := range seq {
		switch {
		case err != nil:
			return Result{Error: Cut(err.Error(), maxErrorRunes)}
		case c.Result == nil:
			if onProgress != nil {
				onProgress(c)
			}
		case c.Result.Failed():
			return *c.Result
		default:
			last = c.Result
		}
	}
	if last == nil {
		return Result{Error: "the tool ended without a result"}
	}
	return *last
}
