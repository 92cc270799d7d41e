package realtime

import (
	"encoding/json"
	"fmt"
	"slices"
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
	var event, session map[string]json.RawMessage
	if err := json.Unmarshal(raw, &event); err != nil {
		return nil, fmt.Errorf("redact session: %w", err)
	}
	if s := event["session"]; len(s) == 0 || string(s) == "null" {
		return raw, nil
	}
	if err := json.Unmarshal(event["session"], &session); err != nil {
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

func redactTools(session map[string]json.RawMessage, keepTool func(string) bool) error {
	if list := session["tools"]; len(list) > 0 && string(list) != "null" {
		var all []json.RawMessage
		if err := json.Unmarshal(list, &all); err != nil {
			return err
		}
		kept, err := marshal(slices.DeleteFunc(all, func(tool json.RawMessage) bool { return hidden(tool, keepTool) }))
		if err != nil {
			return err
		}
		session["tools"] = kept
	}
	if choice := session["tool_choice"]; len(choice) > 0 && choice[0] == '{' && hidden(choice, keepTool) {
		session["tool_choice"] = json.RawMessage(`"auto"`)
	}
	return nil
}

// hidden reports whether what names a tool names one that keepTool rejects.
func hidden(tool json.RawMessage, keepTool func(string) bool) bool {
	var named struct{ Name loose }
	return json.Unmarshal(tool, &named) != nil || !keepTool(string(named.Name))
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
