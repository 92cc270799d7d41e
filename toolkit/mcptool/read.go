package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"voicebridge/toolkit"
)

// codeNoAnswer is the SDK's for what its transport could not do (internal/jsonrpc2/wire.go, ErrRejected).
const codeNoAnswer = -32005

// read returns a message of the server as the SDK is to see it.
func (s *server) read(message []byte) []byte {
	if _, values := toolkit.Shape(message); values > toolkit.MaxValues {
		return tooManyValues(message)
	}
	message, left := withoutTasks(message)
	if len(left) > 0 {
		s.log.Warn("MCP tools left out, they run only as tasks", "tools", toolkit.Cut(strings.Join(left, ", "), 1000))
	}
	return message
}

// tooManyValues returns an error in place of an answer whose values would take much memory once decoded.
func tooManyValues(message []byte) []byte {
	var answer struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(message, &answer) // without an id it is no answer, and ends the session
	return toolkit.Encode(map[string]any{"jsonrpc": "2.0", "id": answer.ID, "error": map[string]any{
		"code": codeNoAnswer, "message": fmt.Sprintf("its answer has more than %d values", toolkit.MaxValues),
	}})
}

// withoutTasks leaves out of a list the tools that only run as tasks (MCP specification 2025-11-25, tasks), such as
// simulate-research-query of server-everything, and returns their names. The SDK does not know of tasks.
func withoutTasks(message []byte) (rest []byte, left []string) {
	if !bytes.Contains(message, []byte(`"taskSupport"`)) {
		return message, nil
	}
	var envelope, result map[string]json.RawMessage
	var tools []json.RawMessage
	if json.Unmarshal(message, &envelope) != nil || json.Unmarshal(envelope["result"], &result) != nil || json.Unmarshal(result["tools"], &tools) != nil {
		return message, nil
	}
	kept := []json.RawMessage{}
	for _, tool := range tools {
		var named struct {
			Name      string
			Execution struct{ TaskSupport string }
		}
		if json.Unmarshal(tool, &named) == nil && named.Execution.TaskSupport == "required" {
			left = append(left, named.Name)
		} else {
			kept = append(kept, tool)
		}
	}
	result["tools"] = toolkit.Encode(kept)
	envelope["result"] = toolkit.Encode(result)
	return toolkit.Encode(envelope), left
}
