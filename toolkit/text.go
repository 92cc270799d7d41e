package toolkit

import "unicode/utf8"

// Head returns at most the first n bytes of text, up to a character boundary.
func Head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// First returns at most the first n characters of text.
func First(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// Cut shortens text to at most n characters, with an ellipsis as the last.
func Cut(text string, n int) string {
	if len(First(text, n)) == len(text) {
		return text
	}
	return string([]rune(First(text, n-1))) + "…"
}
