package thread

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Part is one part of a message. Type decides which fields are used; unknown fields and types are
// kept in Raw and written back.
type Part struct {
	Type string // text, step-start, tool-NAME, dynamic-tool, …

	Text string // text

	ToolCallID string          // tool-NAME, dynamic-tool
	ToolName   string          // dynamic-tool; derived from Type for tool-NAME
	State      ToolState       // tool-NAME, dynamic-tool
	Input      json.RawMessage // tool-NAME, dynamic-tool
	Output     json.RawMessage // state output-available
	ErrorText  string          // state output-error

	// Raw is the part as read, for unknown types and further fields.
	Raw json.RawMessage
}

// ToolState is the state of a tool part.
type ToolState string

// The states of a tool part.
const (
	ToolInputAvailable  ToolState = "input-available"
	ToolOutputAvailable ToolState = "output-available"
	ToolOutputError     ToolState = "output-error"
)

// The known types of parts, as in the AI SDK's UIMessage.
const (
	PartText        = "text"
	PartFile        = "file"
	PartStepStart   = "step-start"
	PartDynamicTool = "dynamic-tool"
	PartTool        = "tool-" // followed by the tool's name
)

// TextPart returns a part with text.
func TextPart(text string) Part { return Part{Type: PartText, Text: text} }

// StepStart returns the part that precedes each step of a model.
func StepStart() Part { return Part{Type: PartStepStart} }

// ToolPart returns a part for a call of a built-in tool; the caller fills in the call's id, state,
// input and result.
func ToolPart(name string) Part { return Part{Type: PartTool + name, ToolName: name} }

// DynamicToolPart is ToolPart for a tool of an MCP server or a client.
func DynamicToolPart(name string) Part { return Part{Type: PartDynamicTool, ToolName: name} }

// ImagePath returns the path, with a slash at its end, below which clients read the images of a
// thread.
func ImagePath(thread string) string { return "/api/threads/" + thread + "/images/" }

// ImageID returns the id of the thread's image that the part shows; ok is false for other parts.
func (p Part) ImageID(thread string) (id string, ok bool) {
	var file struct{ MediaType, URL string }
	if p.Type != PartFile || json.Unmarshal(p.Raw, &file) != nil || !strings.HasPrefix(file.MediaType, "image/") {
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
	return p.Type == PartDynamicTool || strings.HasPrefix(p.Type, PartTool)
}

// fields lists the keys that Part knows for its type; nil for an unknown type.
func (p Part) fields() []string {
	switch {
	case p.Type == PartText:
		return []string{"type", "text"}
	case p.Type == PartStepStart:
		return []string{"type"}
	case p.Type == PartDynamicTool:
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
	if p.Type == PartText {
		w.Text = &p.Text
	}
	if !p.IsTool() {
		return w
	}
	if p.Type == PartDynamicTool {
		w.ToolName = p.ToolName
	}
	w.ToolCallID, w.State, w.Input, w.Output = &p.ToolCallID, p.State, AsJSON(p.Input), AsJSON(p.Output)
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
		return Encode(p.wire())
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(p.Raw, &all); err != nil || all == nil {
		return nil, fmt.Errorf("write part %q: its raw form is not a JSON object", p.Type)
	}
	for _, key := range known {
		delete(all, key)
	}
	data, err := Encode(p.wire())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	return Encode(all)
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
	if p.Type == PartText {
		get("text", &p.Text)
	}
	if p.IsTool() {
		p.ToolName = strings.TrimPrefix(p.Type, PartTool)
		if p.Type == PartDynamicTool {
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
