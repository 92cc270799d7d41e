package mcptool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"

	"voicebridge/toolkit"
)

const (
	// maxRefusal is how much of an error's body is read, in bytes.
	maxRefusal = 64 << 10
	// maxReason is how much of it is passed on, in characters.
	maxReason = 300
)

// refusal is an answer with an HTTP error.
type refusal struct {
	status int
	reason string // in the server's words; empty if it gave none
	// scopes are those that a token lacks.
	scopes []string
	// forgotten means that the server does not know the session.
	forgotten bool
}

// Error says what the server says, and what can be done about it.
func (r *refusal) Error() string {
	text := fmt.Sprintf("HTTP %d %s", r.status, http.StatusText(r.status))
	if r.reason != "" {
		text += ": " + r.reason
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden && r.reason == "" {
		text += "; it wants other credentials: headers of its configuration, " +
			`or "auth": "oauth", with which each owner signs in`
	}
	return text
}

// readReason returns why a server refuses a request, on one line.
func readReason(header http.Header, body []byte) string {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	reason := cmp.Or(challenge(header.Get("WWW-Authenticate")), reasonOf(body, kind))
	return toolkit.Line(reason, maxReason)
}

// reasonOf finds the reason in a body: OAuth's (RFC 6749, 5.2), that of an error as most servers write it, or a text.
func reasonOf(body []byte, kind string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		if kind == "text/html" {
			return ""
		}
		return string(body)
	}
	for _, key := range []string{"error_description", "message", "detail", "error"} {
		var text string
		var inner struct{ Message string }
		if json.Unmarshal(object[key], &text) == nil && text != "" {
			return text
		}
		if json.Unmarshal(object[key], &inner) == nil && inner.Message != "" {
			return inner.Message
		}
	}
	return ""
}

// described finds the description of an error in a challenge (RFC 6750, 3).
var described = regexp.MustCompile(`(?i)\berror(_description)?="([^"]*)"`)

// challenge returns why a token was refused.
func challenge(header string) string {
	reason := ""
	for _, found := range described.FindAllStringSubmatch(header, -1) {
		if found[1] != "" {
			return found[2]
		}
		reason = found[2]
	}
	return reason
}
