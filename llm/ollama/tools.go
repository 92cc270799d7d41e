package ollama

import (
	"cmp"
	"encoding/json"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// tool is a definition on the wire.
type tool struct {
	Type     string     `json:"type"`
	Function definition `json:"function"`
}

type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// call is a call on the wire. Old servers send no id.
type call struct {
	ID       string   `json:"id,omitempty"`
	Function function `json:"function"`
}

// function has its arguments as an object, not as text.
type function struct {
	Index     int             `json:"index,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// tools writes definitions.
func tools(definitions []llm.Tool) []tool {
	var out []tool
	for _, d := range definitions {
		out = append(out, tool{
			Type:     "function",
			Function: definition{Name: d.Name, Description: d.Description, Parameters: wire.Schema(d.Parameters)},
		})
	}
	return out
}

// received returns a call as received, with a new id if the server sent none or one that is in
// seen.
func received(c call, seen []llm.ToolCall) llm.ToolCall {
	id := c.ID
	for _, other := range seen {
		if other.ID == id {
			id = ""
		}
	}
	id = cmp.Or(id, wire.NewCallID())
	return llm.ToolCall{ID: id, Name: c.Function.Name, Arguments: wire.Arguments(string(c.Function.Arguments))}
}
