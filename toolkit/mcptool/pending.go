package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"voicebridge/toolkit"
)

// pending is a call of JSON-RPC over streamable HTTP that waits for its answer. The SDK ends the session, and
// all other calls with it, when an answer is not what it expects: a proxy's page with the status 500, or an
// error without an id. Of an answer that breaks off it learns nothing, and waits. So whatever the server
// sends, each call gets one answer, and it concerns that call only.
type pending struct {
	id       json.RawMessage
	answered bool
	said     *jsonrpc.Error // by the server, perhaps about the call
}

// handshake are calls whose failure leads to another attempt in another way.
var handshake = []string{"initialize", "server/discover", "subscriptions/listen"}

// await returns the call that a response answers, nil if there is none. A refusal to take any other message
// is left out: it would be the end of the session, too.
func await(request *http.Request, response *http.Response) *pending {
	if request.Method != http.MethodPost || request.GetBody == nil {
		return nil
	}
	body, err := request.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&message) != nil || slices.Contains(handshake, message.Method) {
		return nil
	}
	if message.ID == nil || message.Method == "" {
		if response.StatusCode >= http.StatusBadRequest {
			response.StatusCode = http.StatusAccepted
		}
		return nil
	}
	call := &pending{id: message.ID}
	call.complete(response)
	return call
}

// codeNoAnswer is the SDK's for what its transport could not do (internal/jsonrpc2/wire.go, ErrRejected).
const codeNoAnswer = -32005

// refusal returns an answer that says why there is no other: what the server said, or else why.
func (p *pending) refusal(why string) []byte {
	if p.said == nil {
		p.said = &jsonrpc.Error{Code: codeNoAnswer, Message: why}
	}
	return toolkit.Encode(map[string]any{"jsonrpc": "2.0", "id": p.id, "error": p.said})
}

// see looks whether a message is the answer. An error with another id, or none, is not: it may be about a
// notification. But if nothing else comes, it was about the call.
func (p *pending) see(message []byte, readable bool) {
	var reply struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Error  *jsonrpc.Error  `json:"error"`
	}
	switch {
	case json.Unmarshal(message, &reply) != nil || reply.Method != nil:
	case readable && bytes.Equal(reply.ID, p.id):
		p.answered = true
	case reply.Error != nil && reply.Error.Message != "":
		p.said = reply.Error
	}
}

// complete replaces an answer that is no message at all.
func (p *pending) complete(response *http.Response) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch class := response.StatusCode / 100; {
	case class == 3: // a redirect, which the HTTP client follows or refuses
		return
	case class == 2 && (kind == "application/json" || kind == "text/event-stream"):
		return
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // as far as it comes
	response.Body.Close()
	p.see(body, false)
	why := fmt.Sprintf("HTTP %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if reason := readReason(response, body); reason != "" && response.StatusCode >= http.StatusBadRequest {
		why += ": " + reason
	}
	response.StatusCode, response.Body, response.ContentLength = http.StatusOK, io.NopCloser(bytes.NewReader(p.refusal(why))), -1
	response.Header.Set("Content-Type", "application/json")
}
