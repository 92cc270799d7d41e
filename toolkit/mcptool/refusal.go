package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"voicebridge/toolkit"
)

const (
	// maxPeek is how much of an error's body is read, in bytes.
	maxPeek = 4 << 10
	// maxReason is how much of it is passed on, in characters.
	maxReason = 300
)

// refusal is an answer with an HTTP error.
type refusal struct {
	status int
	reason string // in the server's words; empty if it gave none
}

// explain adds to an error what it does not say yet, and what can be done about it.
func (r *refusal) explain(err error) error {
	var notes []string
	if r.reason != "" && !strings.Contains(err.Error(), r.reason) {
		notes = append(notes, fmt.Sprintf("the server says %q", r.reason))
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden && r.reason == "" {
		notes = append(notes, "it wants other credentials; they belong in headers of its configuration, signing in by OAuth is not supported")
	}
	if notes == nil {
		return err
	}
	return fmt.Errorf("%w (HTTP %d: %s)", err, r.status, strings.Join(notes, "; "))
}

// readReason returns why a server refuses a request, on one line.
func readReason(response *http.Response, body []byte) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	reason := cmp.Or(challenge(response.Header.Get("WWW-Authenticate")), reasonOf(body, kind))
	return toolkit.Cut(strings.Join(strings.Fields(strings.ToValidUTF8(reason, "\uFFFD")), " "), maxReason)
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

// peek returns the beginning of a response's body, which can still be read from there.
func peek(response *http.Response) []byte {
	body := response.Body
	start, _ := io.ReadAll(io.LimitReader(body, maxPeek)) // an error comes again
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), body), body}
	return start
}
