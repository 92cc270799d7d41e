package openai

import (
	"encoding/json"

	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// maxCallID is the longest id of a call that the API takes back.
const maxCallID = 40

// callID returns the id of a call as it is sent back: as it came, for some
// models read it, unless the API refuses it.
func callID(id string) string {
	if id != "" && len(id) <= maxCallID {
		return id
	}
	return wire.StandIn(id)
}

// function is a tool's definition on the wire. The vendor's own type has its
// schema as a map, which would sort its properties; models write arguments in
// the order of the schema.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// tools writes definitions.
func tools(definitions []llm.Tool) []openai.ChatCompletionToolUnionParam {
	var out []openai.ChatCompletionToolUnionParam
	for _, d := range definitions {
		out = append(out, openai.ChatCompletionFunctionTool(param.Override[shared.FunctionDefinitionParam](
			function{Name: d.Name, Description: d.Description, Parameters: wire.Schema(d.Parameters)})))
	}
	return out
}

// calls writes the calls of an assistant message.
func calls(asked []llm.ToolCall) []openai.ChatCompletionMessageToolCallUnionParam {
	out := make([]openai.ChatCompletionMessageToolCallUnionParam, 0, len(asked))
	for _, c := range asked {
		out = append(out, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: callID(c.ID),
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: c.Name,
					// The templates of some models read them as JSON, and fail on
					// anything else.
					Arguments: string(wire.Object(c.Arguments)),
				},
			},
		})
	}
	return out
}

// pieces are calls that come in pieces.
type pieces struct {
	calls  []llm.ToolCall // in the order in which they began
	places map[int64]int  // the index of the API to that in calls
}

// add takes a piece. The API numbers calls by index and gives the id and the
// name with the first piece. Some servers give all calls the index 0, some
// repeat the id with every piece, some give no id: so a piece begins a call if
// its index is new, or if it has a name and an id other than that of its index.
func (s *pieces) add(d openai.ChatCompletionChunkChoiceDeltaToolCall) {
	if s.places == nil {
		s.places = map[int64]int{}
	}
	place, known := s.places[d.Index]
	if known && d.Function.Name != "" && d.ID != "" && s.calls[place].ID != "" && d.ID != s.calls[place].ID {
		known = false
	}
	if !known {
		place = len(s.calls)
		s.places[d.Index] = place
		s.calls = append(s.calls, llm.ToolCall{})
	}
	call := &s.calls[place]
	if call.ID == "" {
		call.ID = d.ID
	}
	if call.Name == "" {
		call.Name = d.Function.Name
	}
	call.Arguments += d.Function.Arguments
}

// complete returns the calls that are whole. What has no name is no call, and in
// an answer that was cut at its limit, neither are halves of arguments.
func (s *pieces) complete(cut bool) []llm.ToolCall {
	var out []llm.ToolCall
	for _, c := range s.calls {
		if c.Name == "" || (cut && !json.Valid([]byte(c.Arguments))) {
			continue
		}
		c.Arguments = wire.Arguments(c.Arguments)
		if c.ID == "" {
			c.ID = wire.NewCallID()
		}
		out = append(out, c)
	}
	return out
}
