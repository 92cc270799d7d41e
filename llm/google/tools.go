package google

import (
	"bytes"
	"cmp"
	"encoding/json"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// noSignature stands for the missing signature of a call that another model made:
// https://ai.google.dev/gemini-api/docs/thought-signatures.
const noSignature = "skip_thought_signature_validator"

// metadata is what is kept with a call.
type metadata struct {
	// ThoughtSignature is the model's, as received.
	ThoughtSignature []byte `json:"thoughtSignature,omitempty"`
}

// toolSet are all tools of a request.
type toolSet struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

// declaration is a tool. Its schema is sent as JSON Schema, which the API accepts besides its own
// form.
type declaration struct {
	Description string          `json:"description,omitempty"`
	Name        string          `json:"name"`
	Schema      json.RawMessage `json:"parametersJsonSchema"`
}

// tools writes definitions.
func tools(definitions []llm.Tool) []toolSet {
	if len(definitions) == 0 {
		return nil
	}
	var out toolSet
	for _, d := range definitions {
		out.FunctionDeclarations = append(out.FunctionDeclarations,
			declaration{Description: d.Description, Name: d.Name, Schema: wire.Schema(d.Parameters)})
	}
	return []toolSet{out}
}

// call writes a call of the model. sign substitutes for a missing signature.
func call(c llm.ToolCall, sign bool) part {
	out := part{FunctionCall: &functionCall{ID: c.ID, Name: c.Name, Args: wire.Object(c.Arguments)}}
	var kept metadata
	if json.Unmarshal(c.Metadata, &kept) == nil { // otherwise it is another provider's
		out.ThoughtSignature = kept.ThoughtSignature
	}
	if sign && len(out.ThoughtSignature) == 0 {
		out.ThoughtSignature = []byte(noSignature)
	}
	return out
}

// result writes the answer to a call. The API requires an object: an object from the tool is sent
// unchanged, anything else becomes its field output or error, which are the names that the API
// knows.
func result(m llm.Message) part {
	response := json.RawMessage(bytes.TrimSpace([]byte(m.Content)))
	if m.Failed || len(response) == 0 || response[0] != '{' || !json.Valid(response) {
		field := "output"
		if m.Failed {
			field = "error"
		}
		response, _ = json.Marshal(map[string]string{field: m.Content}) // a map of strings can always be encoded
	}
	return part{FunctionResponse: &functionResponse{ID: m.ToolCallID, Name: m.ToolName, Response: response}}
}

// received returns a call as received.
func received(p part) llm.ToolCall {
	c := llm.ToolCall{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Arguments: "{}"}
	if !wire.Missing(p.FunctionCall.Args) {
		c.Arguments = wire.Arguments(string(p.FunctionCall.Args))
	}
	c.ID = cmp.Or(c.ID, wire.NewCallID())
	if len(p.ThoughtSignature) > 0 {
		if kept, err := json.Marshal(metadata{p.ThoughtSignature}); err == nil {
			c.Metadata = kept
		}
	}
	return c
}
