package chat

import "voicebridge/toolkit"

// cutMark stands where text was cut.
const cutMark = " […]"

// cutRunes shortens text to n characters and marks the cut.
func cutRunes(text string, n int) string {
	if first := toolkit.First(text, n); len(first) < len(text) {
		return first + cutMark
	}
	return text
}
