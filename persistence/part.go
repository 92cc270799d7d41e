package persistence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The known types of parts, as in the AI SDK's UIMessage.
const (
	partText    = "text"
	partFile    = "file"
	partStep    = "step-start"
	partDynamic = "dynamic-tool"
	partTool    = "tool-" // followed by the tool's name
)

// TextPart returns a part with text.
func TextPart(text string) Part { return Part{Type: partText, Text: text} }

// StepStart returns the part that precedes each step of a model.
func StepStart() Part { return Part{Type: partStep} }

// ToolPart returns a part for a call of a built-in tool; the caller fills in the call's id, state,
// input and result.
func ToolPart(name string) Part { return Part{Type: partTool + name, ToolName: name} }

// DynamicToolPart is ToolPart for a tool of an MCP server or a client.
func DynamicToolPart(name string) Part { return Part{Type: partDynamic, ToolName: name} }

// ImagePath returns the path, with a slash at its end, below which clients read the images of a
// thread.
func ImagePath(thread string) string { return "/api/threads/" + thread + "/images/" }

// ImageID returns the id of the thread's image that the part shows; ok is false for other parts.
func (p Part) ImageID(thread string) (id string, ok bool) {
	var file struct{ MediaType, URL string }
	if p.Type != partFile || json.Unmarshal(p.Raw, &file) != nil || !strings.HasPrefix(file.MediaType, "image/") {
		return "", false
	}
	id, ok = strings.CutPrefix(file.URL, ImagePath(thread))
	if ok {
		id, _ = url.PathUnescape(id)
	}
	return id, ok && id != ""
}

// IsTool reports whether the part is a tool call.
func (p Part) IsTool() bool {
	return p.Type == partDynamic || strings.HasPrefix(p.Type, partTool)
}

// fields lists the keys that Part knows for its type; nil for an unknown type.
func (p Part) fields() []string {
	switch {
	case p.Type == partText:
		return []string{"type", "text"}
	case p.Type == partStep:
		return []string{"type"}
	case p.Type == partDynamic:
		return []string{"type", "toolCallId", "state", "input", "output", "errorText", "toolName"}
	case p.IsTool():
		return []string{"type", "toolCallId", "state", "input", "output", "errorText"}
	}
	return nil
}

// wirePart is a part with its keys in a readable order.
type wirePart struct {
	Type       string          `json:"type"`
	Text       *string         `json:"text,omitempty"`
	ToolName   string          `json:"toolName,omitempty"`
	ToolCallID *string         `json:"toolCallId,omitempty"`
	State      ToolState       `json:"state,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	ErrorText  *string         `json:"errorText,omitempty"`
}

func (p Part) wire() wirePart {
	w := wirePart{Type: p.Type}
	if p.Type == partText {
		w.Text = &p.Text
	}
	if !p.IsTool() {
		return w
	}
	if p.Type == partDynamic {
		w.ToolName = p.ToolName
	}
	w.ToolCallID, w.State, w.Input, w.Output = &p.ToolCallID, p.State, asJSON(p.Input), asJSON(p.Output)
	if w.Output == nil && p.State == ToolOutputAvailable {
		w.Output = json.RawMessage("null")
	}
	if p.ErrorText != "" || p.State == ToolOutputError {
		w.ErrorText = &p.ErrorText
	}
	return w
}

// MarshalJSON writes the part in the form of the AI SDK's UIMessage. Keys of Raw for which Part has
// no field are written back unchanged. An input or output that is not JSON is written as a string.
func (p Part) MarshalJSON() ([]byte, error) {
	known := p.fields()
	if p.Raw == nil {
		return encode(p.wire())
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(p.Raw, &all); err != nil || all == nil {
		return nil, fmt.Errorf("write part %q: its raw form is not a JSON object", p.Type)
	}
	for _, key := range known {
		delete(all, key)
	}
	data, err := encode(p.wire())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	return encode(all)
}

// UnmarshalJSON reads any part of a UIMessage. Keys are matched exactly.
func (p *Part) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil || all == nil {
		return errors.New("read part: not a JSON object")
	}
	*p = Part{}
	var err error
	get := func(key string, into any) {
		if raw, ok := all[key]; ok && err == nil {
			if e := json.Unmarshal(raw, into); e != nil {
				err = fmt.Errorf("read part: %q has the wrong type", key)
			}
		}
	}
	get("type", &p.Type)
	if err == nil && p.Type == "" {
		return errors.New("read part: it has no type")
	}
	known := p.fields()
	if p.Type == partText {
		get("text", &p.Text)
	}
	if p.IsTool() {
		p.ToolName = strings.TrimPrefix(p.Type, partTool)
		if p.Type == partDynamic {
			p.ToolName = ""
			get("toolName", &p.ToolName)
		}
		get("toolCallId", &p.ToolCallID)
		get("state", &p.State)
		get("errorText", &p.ErrorText)
		p.Input, p.Output = all["input"], all["output"]
		if p.State == ToolOutputAvailable && bytes.Equal(p.Output, []byte("null")) {
			p.Output = nil
		}
	}
	for key := range all {
		if !slices.Contains(known, key) {
			p.Raw = bytes.Clone(data)
			break
		}
	}
	return err
}

// encode is json.Marshal without escaping for HTML, which would make the tables harder to read.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// asJSON returns raw if it is JSON of a reasonable depth, else raw as a string.
func asJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if json.Valid(raw) && depth(raw) <= maxDepth {
		return raw
	}
	text, _ := encode(string(raw)) // a string can always be encoded
	return text
}
