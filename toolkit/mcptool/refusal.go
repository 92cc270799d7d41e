package mcptool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

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
		text += `; it wants other credentials: headers of its configuration, or "auth": "oauth", with which each owner signs in`
	}
	return text
}

// refused reads an HTTP error. It becomes an error of the request, which costs the SDK one call; many a status would cost it the
// session, and all would lose the server's words. An error of JSON-RPC is the server's answer.
func (r *remote) refused(request *http.Request, response *http.Response) (*http.Response, error) {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // as far as it comes
	_ = response.Body.Close()
	why := &refusal{status: response.StatusCode, reason: readReason(response.Header, body)}
	challenges, _ := oauthex.ParseWWWAuthenticate(response.Header.Values("WWW-Authenticate"))
	for _, c := range challenges {
		if why.status == http.StatusForbidden && c.Params["error"] == "insufficient_scope" {
			why.scopes = strings.Fields(c.Params["scope"])
		}
	}
	var answer struct {
		ID    any
		Error struct{ Code int }
	}
	_ = json.Unmarshal(body, &answer)
	if code := answer.Error.Code; answer.ID == nil || code <= -32000 && code >= -32099 {
		why.forgotten = why.status == http.StatusBadRequest && noSession.Match(body)
	}
	why.forgotten = r.inSession(request) && (why.forgotten || why.status == http.StatusNotFound)
	call := callOf(request)
	if answer.ID != nil && call != nil && why.status != http.StatusUnauthorized && !why.forgotten {
		return r.answered(response, call, body), nil
	}
	return nil, why
}

// noSession is what servers say that do not know a session, as after a restart, and so have not run a call in it. They
// then answer 404 (MCP specification 2025-11-25, transports, session management), and Python's SDK, as in FastMCP,
// writes an error of JSON-RPC to it; server-everything, and others made after the example of the TypeScript SDK, answer
// 400 with one, of a code for servers. Taken for an answer, it would keep the session.
var noSession = regexp.MustCompile(`(?i)session|not initialized`)

// inSession reports whether a request is one of a session; the older transport names it in the address.
func (r *remote) inSession(request *http.Request) bool {
	return request.Header.Get(sessionHeader) != "" || r.config.Type == TypeSSE && request.Method == http.MethodPost
}

// readReason returns why a server refuses a request, on one line.
func readReason(header http.Header, body []byte) string {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	reason := cmp.Or(challenge(header.Get("WWW-Authenticate")), reasonOf(body, kind))
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
