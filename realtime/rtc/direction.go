package rtc

import (
	"cmp"
	"slices"
	"strings"
)

// directions say which side of a section sends (RFC 8866, 6.7).
var directions = []string{"sendrecv", "sendonly", "recvonly", "inactive"}

// split cuts a session description into the part about the session and its sections.
func split(text string) (parts []string) {
	start, at := 0, 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "m=") {
			parts, start = append(parts, text[start:at]), at
		}
		at += len(line)
	}
	return append(parts, text[start:])
}

// directionOf returns the direction that a part names, empty if it names none.
func directionOf(part string) string {
	for line := range strings.Lines(part) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "a="); ok && slices.Contains(directions, d) {
			return d
		}
	}
	return ""
}

// withDirections writes out the direction of audio and video sections that name none: that of the session, or sendrecv
// (RFC 8866, 6.7). Pion overlooks such sections.
func withDirections(text string) string {
	parts := split(text)
	session := cmp.Or(directionOf(parts[0]), "sendrecv")
	for i, part := range parts {
		if (strings.HasPrefix(part, "m=audio ") || strings.HasPrefix(part, "m=video ")) && directionOf(part) == "" {
			parts[i] = strings.TrimRight(part, "\r\n") + "\r\na=" + session + "\r\n"
		}
	}
	return strings.Join(parts, "")
}

// narrowed returns an answer that does not send where the offer does not receive (RFC 9429, 5.3.1). Pion goes on with
// sendrecv when a later offer only sends, which Firefox refuses.
func narrowed(answer, offer string) string {
	parts, offered := split(answer), split(offer)
	for i := range min(len(parts), len(offered)) {
		if directionOf(offered[i]) == "sendonly" {
			parts[i] = strings.Replace(parts[i], "a=sendrecv\r\n", "a=recvonly\r\n", 1)
		}
	}
	return strings.Join(parts, "")
}
