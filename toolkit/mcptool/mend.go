package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// mend returns a message of a server as the SDK can read it. Because of one part that it cannot read, the
// SDK refuses a whole result of a tool, or a whole list of tools: content of a type that came after it, an
// empty list for an empty object as PHP writes it. Such a part loses what is not needed here. If it still
// cannot be read, a note takes its place in a result, and a list goes without it, as without tools that only
// run as tasks, of which the SDK does not know: those are left.
func mend(message []byte) (mended []byte, left []string) {
	message = withNumber(message)
	if !bytes.Contains(message, []byte(`"content"`)) && !bytes.Contains(message, []byte(`"tools"`)) {
		return message, nil
	}
	var envelope, result map[string]json.RawMessage
	if json.Unmarshal(message, &envelope) != nil || json.Unmarshal(envelope["result"], &result) != nil {
		return message, nil
	}
	switch {
	case result["content"] != nil && !readable[mcp.CallToolResult](envelope["result"]):
		result["content"] = mendContent(result["content"])
	case result["tools"] != nil && (result["ttlMs"] != nil || bytes.Contains(message, []byte(`"taskSupport"`)) || !readable[mcp.ListToolsResult](envelope["result"])):
		result["tools"], left = mendTools(result["tools"])
		delete(result, "ttlMs") // for that long the SDK would not ask for the list again
	default:
		return message, nil
	}
	delete(result, "_meta")
	envelope["result"] = toolkit.Encode(result)
	return toolkit.Encode(envelope), left
}

// numeral is a number in a string.
var numeral = regexp.MustCompile(`^"(0|[1-9][0-9]*)"$`)

// withNumber returns an answer with the id that its call had, which was a number: some servers make a string of it.
func withNumber(message []byte) []byte {
	if !bytes.Contains(message, []byte(`"id":"`)) && !bytes.Contains(message, []byte(`"id": "`)) {
		return message
	}
	var envelope map[string]json.RawMessage
	if json.Unmarshal(message, &envelope) != nil || envelope["method"] != nil || !numeral.Match(envelope["id"]) {
		return message
	}
	envelope["id"] = bytes.Trim(envelope["id"], `"`)
	return toolkit.Encode(envelope)
}

func readable[T any](data []byte) bool { return json.Unmarshal(data, new(T)) == nil }

// mendContent returns the pieces of a result. A single one may stand for a list, and a string for a text.
func mendContent(content json.RawMessage) json.RawMessage {
	var pieces []json.RawMessage
	if json.Unmarshal(content, &pieces) != nil {
		pieces = []json.RawMessage{content}
	}
	for i, piece := range pieces {
		var text string
		switch {
		case readableContent(piece):
		case json.Unmarshal(piece, &text) == nil:
			pieces[i] = textPiece(text)
		default:
			pieces[i] = mendPiece(piece)
		}
	}
	return toolkit.Encode(pieces)
}

func mendPiece(piece json.RawMessage) json.RawMessage {
	if less := without(piece, "annotations", "_meta", "icons", "size"); readableContent(less) {
		return less
	}
	var named struct{ Type string }
	_ = json.Unmarshal(piece, &named) // without a type the note names none
	return textPiece(fmt.Sprintf("[left out: content of the type %q, which cannot be read]", toolkit.Cut(named.Type, toolkit.MaxName)))
}

func textPiece(text string) json.RawMessage {
	return toolkit.Encode(map[string]string{"type": "text", "text": text})
}

func readableContent(piece json.RawMessage) bool {
	return readable[mcp.CallToolResult](toolkit.Encode(map[string]any{"content": []json.RawMessage{piece}}))
}

// mendTools returns the tools of a list that can be read and called, and the names of the others.
func mendTools(list json.RawMessage) (tools json.RawMessage, left []string) {
	var all []json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return list, nil
	}
	kept := []json.RawMessage{}
	for _, tool := range all {
		if !readable[mcp.Tool](tool) {
			tool = without(tool, "annotations", "_meta", "icons", "title", "outputSchema")
		}
		var named struct {
			Name      string
			Execution struct{ TaskSupport string } // MCP specification 2025-11-25, tasks
		}
		_ = json.Unmarshal(tool, &named)
		if readable[mcp.Tool](tool) && string(tool) != "null" && named.Execution.TaskSupport != "required" {
			kept = append(kept, tool)
		} else {
			left = append(left, named.Name)
		}
	}
	return toolkit.Encode(kept), left
}

// without returns an object without some of its members, and anything else as it is.
func without(data json.RawMessage, keys ...string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || object == nil {
		return data
	}
	for _, key := range keys {
		delete(object, key)
	}
	return toolkit.Encode(object)
}
