package chat

// cutMark stands where text was cut.
const cutMark = " […]"

// cutRunes shortens text to n characters and marks the cut.
func cutRunes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	i := 0
	for at := range text {
		if i == n {
			return text[:at] + cutMark
		}
		i++
	}
	return text
}
