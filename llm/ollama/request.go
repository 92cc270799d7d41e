package ollama

import (
	"cmp"
	"encoding/json"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// body is a request on the wire.
type body struct {
	Model    string      `json:"model"`
	Messages []message   `json:"messages"`
	Tools    []wire.Tool `json:"tools,omitempty"`
	Stream   bool        `json:"stream"`
	Options  options     `json:"options,omitzero"`
	// Format is a JSON schema of the answer: https://docs.ollama.com/capabilities/structured-outputs.
	Format json.RawMessage `json:"format,omitempty"`
}

// options are the options of a model's file that are set here.
type options struct {
	NumCtx      int      `json:"num_ctx,omitempty"`
	NumPredict  int      `json:"num_predict,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
}

// message is one message on the wire. The API has all of our roles.
type message struct {
	Role       string   `json:"role"`
	Content    string   `json:"content"`
	Images     [][]byte `json:"images,omitempty"` // Base64
	ToolCalls  []call   `json:"tool_calls,omitempty"`
	ToolName   string   `json:"tool_name,omitempty"`
	ToolCallID string   `json:"tool_call_id,omitempty"`
}

// request writes a request.
func request(req llm.Request, contextTokens int) body {
	out := body{Model: req.Model, Stream: true, Tools: wire.Tools(req.Tools), Format: req.Schema, Options: options{
		NumCtx: contextTokens, NumPredict: max(0, req.MaxTokens), Temperature: req.Temperature, TopP: req.TopP,
	}}
	if req.System != "" {
		out.Messages = append(out.Messages, message{Role: "system", Content: req.System})
	}
	for _, m := range wire.ImagesOfUsers(req.Messages) {
		one := message{Role: string(m.Role), Content: m.Content, ToolCalls: calls(m.ToolCalls)}
		for _, i := range m.Images {
			one.Images = append(one.Images, i.Data)
		}
		if m.Role == llm.RoleTool {
			one.ToolName, one.ToolCallID = m.ToolName, m.ToolCallID
		}
		out.Messages = append(out.Messages, one)
	}
	return out
}

// calls writes the calls of an assistant message.
func calls(asked []llm.ToolCall) []call {
	var out []call
	for i, c := range asked {
		out = append(out,
			call{ID: c.ID, Function: function{Index: i, Name: c.Name, Arguments: wire.Object(c.Arguments)}})
	}
	return out
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
