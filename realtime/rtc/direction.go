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

// isAudio reports whether a part is an audio section that is in use: see active.
func isAudio(part string) bool {
	refused := strings.HasPrefix(part, "m=audio 0 ") && !strings.Contains(part, "\na=bundle-only")
	return strings.HasPrefix(part, "m=audio ") && !refused
}

// sendrecv returns an offer whose audio sends and receives, for Pion: it would stop a section that is inactive for
// good, but a later offer may go on with it (RFC 3264, 8.4).
func sendrecv(offer string) string {
	parts := split(offer)
	for i, part := range parts {
		if isAudio(part) {
			parts[i] = strings.Replace(part, "\na="+directionOf(part), "\na=sendrecv", 1)
		}
	}
	return strings.Join(parts, "")
}

// hears reports whether the first audio section of an offer receives.
func hears(offer string) bool {
	for _, part := range split(offer) {
		if isAudio(part) {
			return receives(directionOf(part))
		}
	}
	return false
}

func sends(direction string) bool    { return direction == "sendrecv" || direction == "sendonly" }
func receives(direction string) bool { return direction == "sendrecv" || direction == "recvonly" }

// settled returns an answer of Pion's with its candidates in the first section that is in use, the only one in which
// browsers look for them (RFC 9143, 7.3.3), with the names of those that are not (RFC 9429, 5.3.1), and with Opus as
// we want to have it, not as the offer does: mono (RFC 7587, 7.1).
func settled(answer, offer, opus string) string {
	parts, offered, candidates, first := split(answer), split(offer), "", 0
	for i, part := range parts[1:] {
		inUse := !strings.HasPrefix(part[strings.Index(part, " ")+1:], "0 ")
		if inUse && first == 0 {
			first = i + 1
		}
		var out strings.Builder
		for line := range strings.Lines(part) {
			switch {
			case strings.HasPrefix(line, "a=candidate:") || strings.HasPrefix(line, "a=end-of-candidates"):
				candidates += line
			case strings.HasPrefix(line, "a=fmtp:") && isAudio(part):
			case strings.HasPrefix(line, "a=rtpmap:") && isAudio(part): // of Opus, there is nothing else
				kind, _, _ := strings.Cut(strings.TrimPrefix(line, "a=rtpmap:"), " ")
				out.WriteString(line + withNack("a=fmtp:"+kind+" "+opus))
			default:
				out.WriteString(line)
			}
		}
		if _, mid, named := strings.Cut(offered[i+1], "\na=mid:"); named && !strings.Contains(part, "\na=mid:") {
			mid, _, _ = strings.Cut(mid, "\n")
			out.WriteString("a=mid:" + strings.TrimSpace(mid) + "\r\n")
		}
		parts[i+1] = out.String()
	}
	parts[first] += candidates
	return strings.Join(parts, "")
}

// narrowed returns an answer whose audio sends only what the offer receives, and the reverse (RFC 3264, 6.1).
func narrowed(answer, offer string) string {
	parts, offered := split(answer), split(offer)
	for i := range min(len(parts), len(offered)) {
		if !isAudio(parts[i]) {
			continue
		}
		mine, theirs := directionOf(parts[i]), directionOf(offered[i])
		allowed := "inactive"
		switch out, in := sends(mine) && receives(theirs), receives(mine) && sends(theirs); {
		case out && in:
			allowed = "sendrecv"
		case out:
			allowed = "sendonly"
		case in:
			allowed = "recvonly"
		}
		parts[i] = strings.Replace(parts[i], "\na="+mine, "\na="+allowed, 1)
	}
	return strings.Join(parts, "")
}

// allowsNack reports whether a session description says that packets of its sound are repeated.
func allowsNack(text string) bool {
	for _, part := range split(text) {
		for line := range strings.Lines(part) {
			line = strings.TrimSpace(line)
			if isAudio(part) && strings.HasPrefix(line, "a=rtcp-fb:") && strings.HasSuffix(line, nackAttribute) {
				return true
			}
		}
	}
	return false
}
