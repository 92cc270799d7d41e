package wire

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"voicebridge/llm"
)

// Tool is the definition of a tool as OpenAI's Chat Completions have it, and those who follow them.
type Tool struct {
	Function Function `json:"function"`
	Type     string   `json:"type"`
}

// Function is what a [Tool] defines.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Tools writes definitions.
func Tools(definitions []llm.Tool) []Tool {
	var out []Tool
	for _, d := range definitions {
		out = append(out, Tool{Function{d.Name, d.Description, Schema(d.Parameters)}, "function"})
	}
	return out
}

// End returns the end of a complete answer: its calls, the usage and the stop reason. early is why the answer was cut
// off, empty if the model has finished.
func End(calls []llm.ToolCall, usage *llm.Usage, early llm.StopReason) (out []llm.Delta) {
	stop := llm.StopEnd
	if len(calls) > 0 {
		stop = llm.StopToolCalls
	}
	for i := range calls {
		out = append(out, llm.Delta{ToolCall: &calls[i]})
	}
	return append(out, llm.Delta{Usage: usage, Stop: cmp.Or(early, stop)})
}

// NewCallID returns an id for a call of a provider that assigns none.
func NewCallID() string { return "call_" + rand.Text() }

// StandIn returns a substitute for an id that a provider does not accept: 37 plain characters, the
// same for the same id. A thread may have calls of several providers, whose ids have different
// forms.
func StandIn(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// Missing reports whether a field is missing or null.
func Missing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// Text is a text that some servers send as the JSON that it should encode.
type Text string

// UnmarshalJSON reads a text, nothing of null, and any other value as it is written.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(t))
	}
	if !Missing(raw) {
		*t = Text(raw)
	}
	return nil
}

// Arguments returns what a model wrote as the arguments of a call, or an empty object if it wrote
// nothing. Some servers encode them twice.
func Arguments(text string) string {
	var inner string
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed == "null" {
		return "{}"
	}
	if json.Unmarshal([]byte(trimmed), &inner) == nil {
		return Arguments(inner)
	}
	return text
}

// Object returns arguments if they are a JSON object, and otherwise puts them into one, because
// most providers refuse a history with anything else.
func Object(arguments string) json.RawMessage {
	raw := bytes.TrimSpace([]byte(arguments))
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	if raw[0] == '{' && json.Valid(raw) {
		return raw
	}
	wrapped, _ := json.Marshal(map[string]string{"arguments": arguments}) // text can always be encoded
	return wrapped
}

// Schema returns a tool's parameters as an object schema with properties. A schema that has both is
// returned unchanged, byte for byte.
func Schema(parameters json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(parameters, &fields) != nil || fields == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	_, typed := fields["type"]
	listed := len(fields["properties"]) > 0 && string(fields["properties"]) != "null"
	if typed && listed {
		return parameters
	}
	if !typed {
		fields["type"] = json.RawMessage(`"object"`)
	}
	if !listed {
		fields["properties"] = json.RawMessage(`{}`)
	}
	whole, _ := json.Marshal(fields) // what has been read can be written
	return whole
}

// Count is a number of tokens, however servers write it. What no request can have counts as not told: a price of it
// would be worse than none.
type Count int64

// maxCount is more tokens than any request has.
const maxCount = 1e9

// UnmarshalJSON reads a whole number, also one with a fraction of zero or in quotes, and nothing of any other value.
func (c *Count) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err == nil && n >= 0 && n <= maxCount {
		*c = Count(n)
	}
	return nil
}
