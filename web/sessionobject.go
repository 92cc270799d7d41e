package web

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// maxSession is the size of a session object, in bytes.
const maxSession = 64 << 10

// sessionObject checks a client's session object. A missing one and null are nil.
func sessionObject(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxSession {
		return nil, problem.TooLarge("session", fmt.Sprintf("session is larger than %d bytes.", maxSession))
	}
	if !utf8.Valid(raw) || !input.IsObject(raw) {
		return nil, problem.BadRequest("invalid_value", "session", "session must be a JSON object in UTF-8.")
	}
	var head struct {
		Type json.RawMessage `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || (len(head.Type) > 0 && string(head.Type) != `"realtime"`) {
		return nil, problem.BadRequest("invalid_value", "session.type", `session.type must be "realtime".`)
	}
	return raw, nil
}
