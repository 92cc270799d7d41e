package toolkit

import (
	"bytes"
	"cmp"
	"encoding/json"

	"voicebridge/thread"
)

// Part returns the call as it is saved in its message. It is dynamic if the tool is an MCP server's or a client's, or
// unknown; its Raw holds further fields: approval and callProviderMetadata.
func (v *Invocation) Part() thread.Part { return v.part(v.input, v.result) }

// WholePart is [Invocation.Part] with the secrets, for the model of this conversation.
func (v *Invocation) WholePart() thread.Part { return v.part(v.wholeInput, v.wholeResult) }

func (v *Invocation) part(input json.RawMessage, result Result) thread.Part {
	name := cmp.Or(v.Call.Name, "unknown")
	p := thread.ToolPart(name)
	if !v.found || v.Entry.Executor != ExecutorApp {
		p = thread.DynamicToolPart(name)
	}
	p.ToolCallID, p.State = v.Call.ID, thread.ToolInputAvailable
	p.Input = input
	own := map[string]any{}
	switch {
	case !v.Done():
	case result.Failed():
		p.State, p.ErrorText = thread.ToolOutputError, result.Error
		if result.SignIn != "" {
			own["sign_in"] = result.SignIn
		}
	default:
		p.State, p.Output = thread.ToolOutputAvailable, result.Output
		if result.Model != "" && result.Model != modelOutput(result.Output) {
			own["result"] = result.Model
		}
	}
	p.Raw = v.fields(own)
	return p
}

// fields makes the part's further fields. The AI SDK accepts the field approval (v6, ToolUIPart) only for a call
// that was approved and has ended, and refuses threads in which other calls have one. For those, it
// is in our metadata.
func (v *Invocation) fields(own map[string]any) json.RawMessage {
	fields := map[string]any{}
	if a := v.approval; a != nil && a.Outcome != thread.ApprovalOpen {
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
		metadata[ownMetadata] = own
	}
	if len(metadata) > 0 {
		fields["callProviderMetadata"] = metadata
	}
	if len(fields) == 0 {
		return nil
	}
	return Encode(fields)
}

// ResultText returns what a model reads of a saved call that succeeded: the text that its tool gave
// for the model, or else the output. output and fields are those of the call's part.
func ResultText(output, fields json.RawMessage) string {
	var own struct {
		Result *string `json:"result"`
	}
	if raw := Metadata(fields, ownMetadata); raw != nil && json.Unmarshal(raw, &own) == nil && own.Result != nil {
		return *own.Result
	}
	return modelOutput(output)
}

// modelOutput returns what a model reads of an output that came without a text for it. Of a chart
// that is the summary, not the data that the page draws.
func modelOutput(output json.RawMessage) string {
	if len(output) == 0 { // as which a saved null is read
		return "null"
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
	return Compact(output)
}

// Compact removes white space from JSON, which only one of the databases adds, so that requests are
// the same with both.
func Compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// Decision says whether a call was allowed to run, as saved in its part.
type Decision struct {
	// ID is the nonce of the approval.
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	// Reason is empty if the user decided.
	Reason string `json:"reason,omitempty"`
}

// DecisionOf reads the decision from the fields of a part; ok is false if there is none.
func DecisionOf(fields json.RawMessage) (d Decision, ok bool) {
	var part, own struct {
		Approval *Decision `json:"approval"`
	}
	if fields == nil || json.Unmarshal(fields, &part) != nil {
		return Decision{}, false
	}
	if raw := Metadata(fields, ownMetadata); part.Approval == nil && raw != nil && json.Unmarshal(raw, &own) == nil {
		part = own
	}
	if part.Approval == nil {
		return Decision{}, false
	}
	return *part.Approval, true
}
