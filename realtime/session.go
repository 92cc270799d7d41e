package realtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Tool declares one function that the model may call.
type Tool struct {
	Type        string          `json:"type"` // "function"
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON schema
}

// RedactSession returns a session.created or session.updated event without what a browser must not see: the
// instructions, the stored prompt and the tools that keepTool rejects. For tools without a name, such as remote MCP
// servers, keepTool gets "". A tool_choice that names a hidden tool becomes "auto". All other values stay as they are,
// but the order of keys may change. An event without a session object is returned unchanged.
func RedactSession(raw []byte, keepTool func(name string) bool) ([]byte, error) {
	event, session := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := readInto(event, raw); err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	if s := event["session"]; len(s) == 0 || isNull(s) {
		return raw, nil
	}
	if err := readInto(session, event["session"]); err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	delete(session, "instructions")
	delete(session, "prompt")
	if err := redactTools(session, keepTool); err != nil {
		return nil, fmt.Errorf("redact session tools: %w", err)
	}
	var err error
	if event["session"], err = marshal(session); err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	return marshal(event)
}

// readInto reads an object of which most is only passed on.
func readInto(fields map[string]json.RawMessage, raw []byte) error {
	return members(raw, func(key string, val []byte) error {
		fields[key] = val
		return nil
	})
}

func redactTools(session map[string]json.RawMessage, keepTool func(string) bool) error {
	if list := session["tools"]; len(list) > 0 && !isNull(list) {
		kept := []json.RawMessage{}
		err := elements(list, func(tool []byte) error {
			if !hidden(tool, keepTool) {
				kept = append(kept, tool)
			}
			return nil
		})
		if err == nil {
			session["tools"], err = marshal(kept)
		}
		if err != nil {
			return err
		}
	}
	if choice := session["tool_choice"]; len(choice) > 0 && choice[0] == '{' && hidden(choice, keepTool) {
		session["tool_choice"] = json.RawMessage(`"auto"`)
	}
	return nil
}

// hidden reports whether what names a tool names one that keepTool rejects.
func hidden(tool json.RawMessage, keepTool func(string) bool) bool {
	var name loose
	if said := Member(tool, "name"); said != nil {
		_ = name.UnmarshalJSON(said) // it is JSON
	}
	return tool[0] != '{' || !keepTool(string(name))
}

// Member returns the value that path, a sequence of keys, leads to in nested objects. It does not decode the rest,
// since a session with its tools is large. The result shares raw's memory; it is nil if there is no such value or raw
// is not JSON.
func Member(raw json.RawMessage, path ...string) json.RawMessage {
	for _, name := range path {
		var found []byte
		err := members(raw, func(key string, val []byte) error {
			if key == name {
				found = val
			}
			return nil
		})
		if err != nil || found == nil {
			return nil
		}
		raw = found
	}
	return raw
}

// Tree reads an object, with its numbers as they are written; nil if it is none.
func Tree(raw []byte) (object map[string]any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&object) != nil {
		return nil
	}
	return object
}

// Put sets a value in an object by the path of its name, like audio.input.format, and makes the objects on the way.
func Put(object map[string]any, path string, value any) {
	for {
		group, rest, nested := strings.Cut(path, ".")
		if !nested {
			object[path] = value
			return
		}
		inner, ok := object[group].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			object[group] = inner
		}
		object, path = inner, rest
	}
}
