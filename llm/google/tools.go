package google

import (
	"bytes"
	"encoding/json"

	"google.golang.org/genai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// noSignature stands for a signature that there is not, because the call is
// another model's: https://ai.google.dev/gemini-api/docs/thought-signatures.
const noSignature = "skip_thought_signature_validator"

// metadata is what a call keeps for us.
type metadata struct {
	// ThoughtSignature is the model's, as it was sent.
	ThoughtSignature []byte `json:"thoughtSignature,omitempty"`
}

// tools writes definitions. The schemas go as JSON Schema, which the API knows
// beside its own.
func tools(definitions []llm.Tool) []*genai.Tool {
	if len(definitions) == 0 {
		return nil
	}
	out := &genai.Tool{}
	for _, d := range definitions {
		out.FunctionDeclarations = append(out.FunctionDeclarations, &genai.FunctionDeclaration{
			Name: d.Name, Description: d.Description, ParametersJsonSchema: wire.Schema(d.Parameters),
		})
	}
	return []*genai.Tool{out}
}

// call writes a call of the model. sign puts a stand-in for a missing signature.
func call(c llm.ToolCall, sign bool) *genai.Part {
	part := &genai.Part{FunctionCall: &genai.FunctionCall{ID: c.ID, Name: c.Name, Args: object(wire.Object(c.Arguments))}}
	var kept metadata
	if json.Unmarshal(c.Metadata, &kept) == nil { // else it is another provider's
		part.ThoughtSignature = kept.ThoughtSignature
	}
	if sign && len(part.ThoughtSignature) == 0 {
		part.ThoughtSignature = []byte(noSignature)
	}
	return part
}

// result writes the answer to a call. The API wants an object: one of the tool
// is taken as it is, all else becomes its field output or error, which are the
// names that the API knows.
func result(m llm.Message, names map[string]string) *genai.Part {
	name := m.ToolName
	if name == "" {
		name = names[m.ToolCallID]
	}
	response := map[string]any{}
	switch text := bytes.TrimSpace([]byte(m.Content)); {
	case m.Failed:
		response["error"] = m.Content
	case len(text) > 0 && text[0] == '{' && json.Valid(text):
		response = object(text)
	default:
		response["output"] = m.Content
	}
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: m.ToolCallID, Name: name, Response: response}}
}

// object reads a JSON object without a loss of digits.
func object(raw []byte) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var fields map[string]any
	if decoder.Decode(&fields) != nil || fields == nil {
		return map[string]any{}
	}
	return fields
}

// received returns a call as it came. raw are its arguments as they were sent:
// the client has its numbers as float64.
func received(part *genai.Part, raw json.RawMessage) llm.ToolCall {
	c := llm.ToolCall{ID: part.FunctionCall.ID, Name: part.FunctionCall.Name, Arguments: wire.Arguments(string(raw))}
	if c.ID == "" {
		c.ID = wire.NewCallID()
	}
	if len(part.ThoughtSignature) > 0 {
		if kept, err := json.Marshal(metadata{part.ThoughtSignature}); err == nil {
			c.Metadata = kept
		}
	}
	return c
}
