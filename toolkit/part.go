package toolkit

import (
	"bytes"
	"cmp"
	"encoding/json"
)

// PartState is the state of a call in a message (AI SDK, UIMessage: the state of a tool part).
type PartState string

// The states of a part.
const (
	PartInput  PartState = "input-available"
	PartOutput PartState = "output-available"
	PartError  PartState = "output-error"
)

// OwnMetadata is our entry in the metadata of a part.
const OwnMetadata = "voicebridge"

// Part is how a call stands in its message, in the form of the AI SDK's tool parts.
type Part struct {
	// Name is the tool's, never empty. Dynamic says that it is a tool of an MCP server or a client,
	// or unknown.
	Name    string
	Dynamic bool
	CallID  string
	State   PartState
	Input   json.RawMessage
	// Output is set in PartOutput, ErrorText in PartError.
	Output    json.RawMessage
	ErrorText string
	// Fields is a JSON object of further fields: approval and callProviderMetadata; nil for none.
	Fields json.RawMessage
}

// Part returns the call as its message keeps it.
func (v *Invocation) Part() Part { return v.part(v.input, v.result) }

// WholePart is [Invocation.Part] with the secrets, for the model of this conversation.
func (v *Invocation) WholePart() Part { return v.part(v.wholeInput, v.wholeResult) }

func (v *Invocation) part(input json.RawMessage, result Result) Part {
	p := Part{
		Name: cmp.Or(v.Call.Name, "unknown"), Dynamic: !v.known || v.Entry.Executor != ExecutorApp,
		CallID: v.Call.ID, State: PartInput, Input: input,
	}
	own := map[string]any{}
	switch {
	case !v.Done():
	case result.Failed():
		p.State, p.ErrorText = PartError, result.Error
	default:
		p.State, p.Output = PartOutput, result.Output
		if result.Model != "" && result.Model != ModelOutput(result.Output) {
			own["result"] = result.Model
		}
	}
	p.Fields = v.fields(own)
	return p
}

// fields makes Part.Fields. The AI SDK takes the field approval (v6, ToolUIPart) of a call only
// that was approved and is finished, and refuses a thread in which another has one. Until then, and
// of calls that were refused, it stands in our metadata.
func (v *Invocation) fields(own map[string]any) json.RawMessage {
	fields := map[string]any{}
	if a := v.approval; a != nil && a.Outcome != ApprovalOpen {
		decision := Decision{a.Nonce, a.Approved(), a.Reason()}
		if a.Approved() && v.Done() {
			fields["approval"] = decision
		} else {
			own["approval"] = decision
		}
	}
	metadata := map[string]any{}
	for provider, data := range v.metadata {
		metadata[provider] = data
	}
	if len(own) > 0 {
		metadata[OwnMetadata] = own
	}
	if len(metadata) > 0 {
		fields["callProviderMetadata"] = metadata
	}
	if len(fields) == 0 {
		return nil
	}
	return Encode(fields)
}

// wrappedKey holds metadata that is no object: a UIMessage has objects only.
const wrappedKey = "value_"

func wrapMetadata(data json.RawMessage) json.RawMessage {
	if bytes.TrimSpace(data)[0] == '{' {
		return bytes.Clone(data)
	}
	return Encode(map[string]json.RawMessage{wrappedKey: data})
}

// Metadata returns what [Invocation.SetMetadata] attached for the provider, from the fields of a
// part; nil when there is nothing.
func Metadata(fields json.RawMessage, provider string) json.RawMessage {
	var part struct {
		Call map[string]json.RawMessage `json:"callProviderMetadata"`
	}
	if fields == nil || json.Unmarshal(fields, &part) != nil {
		return nil
	}
	return unwrapMetadata(part.Call[provider])
}

func unwrapMetadata(data json.RawMessage) json.RawMessage {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(data, &wrapped) == nil && len(wrapped) == 1 && wrapped[wrappedKey] != nil {
		return wrapped[wrappedKey]
	}
	return data
}

// ResultText is what a model reads of a saved call that succeeded: the words that its tool gave for
// the model, or else the output. The arguments are those of its part.
func ResultText(output, fields json.RawMessage) string {
	var own struct {
		Result *string `json:"result"`
	}
	if raw := Metadata(fields, OwnMetadata); raw != nil && json.Unmarshal(raw, &own) == nil && own.Result != nil {
		return *own.Result
	}
	return ModelOutput(output)
}

// ModelOutput is what a model reads of an output that came without words for it. Of a chart it
// reads the summary, not the data that the page draws from.
func ModelOutput(output json.RawMessage) string {
	if len(output) == 0 {
		return "{}"
	}
	var text string
	if output[0] == '"' && json.Unmarshal(output, &text) == nil {
		return text
	}
	var chart struct {
		ChartID   string          `json:"chartId"`
		ChartData json.RawMessage `json:"chartData"`
		Message   string          `json:"message"`
		Title     string          `json:"title"`
	}
	if json.Unmarshal(output, &chart) == nil && chart.ChartID != "" && chart.ChartData != nil {
		return string(Encode(struct {
			Summary string `json:"summary"`
			ChartID string `json:"chartId"`
		}{cmp.Or(chart.Message, chart.Title), chart.ChartID}))
	}
	// Without white space, which one database adds and the other does not.
	var compact bytes.Buffer
	if json.Compact(&compact, output) != nil {
		return string(output)
	}
	return compact.String()
}

// Decision is what came of the question whether a call may run, as its part keeps it.
type Decision struct {
	// ID is the nonce of the question.
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	// Reason is empty where the user has said it.
	Reason string `json:"reason,omitempty"`
}

// DecisionOf reads it from the fields of a part; ok is false when nobody was asked, or
// has answered yet.
func DecisionOf(fields json.RawMessage) (d Decision, ok bool) {
	var part, own struct {
		Approval *Decision `json:"approval"`
	}
	if fields == nil || json.Unmarshal(fields, &part) != nil {
		return Decision{}, false
	}
	if raw := Metadata(fields, OwnMetadata); part.Approval == nil && raw != nil && json.Unmarshal(raw, &own) == nil {
		part = own
	}
	if part.Approval == nil {
		return Decision{}, false
	}
	return *part.Approval, true
}
