package openai

import (
	"bytes"
	"encoding/json"

	openai "github.com/openai/openai-go/v3"

	"voicebridge/llm"
)

// answer collects what chunks do not say at once.
type answer struct {
	calls  pieces
	reason string // why the model has finished
	usage  *llm.Usage
}

// chunk returns what a chunk has for the user now.
func (a *answer) chunk(c openai.ChatCompletionChunk) []llm.Delta {
	if c.JSON.Usage.Valid() {
		a.usage = &llm.Usage{
			InputTokens:  c.Usage.PromptTokens,
			OutputTokens: c.Usage.CompletionTokens,
			CachedTokens: c.Usage.PromptTokensDetails.CachedTokens,
			Raw:          json.RawMessage(c.Usage.RawJSON()),
		}
	}
	var out []llm.Delta
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one was asked for
		}
		if text := choice.Delta.Content + choice.Delta.Refusal; text != "" {
			out = append(out, llm.Delta{Text: text})
		}
		for _, piece := range choice.Delta.ToolCalls {
			a.calls.add(piece)
		}
		if choice.FinishReason != "" {
			a.reason = choice.FinishReason
		}
	}
	return out
}

// finished reports whether the answer is whole. The usage comes later, and an
// answer without it is an answer. Gateways write "error" when their upstream has
// failed.
func (a *answer) finished() bool { return a.reason != "" && a.reason != "error" }

// end returns the calls, the usage and the reason of the end.
func (a *answer) end() []llm.Delta {
	calls := a.calls.complete(a.reason == "length")
	var out []llm.Delta
	for i := range calls {
		out = append(out, llm.Delta{ToolCall: &calls[i]})
	}
	return append(out, llm.Delta{Usage: a.usage, Stop: stop(a.reason, len(calls) > 0)})
}

// stop translates finish_reason. Some servers say "stop" beside calls.
func stop(reason string, calls bool) llm.StopReason {
	switch {
	case reason == "length":
		return llm.StopLength
	case reason == "content_filter":
		return llm.StopFilter
	case calls:
		return llm.StopToolCalls
	}
	return llm.StopEnd
}

// withoutNullError takes "error": null out of a chunk: some gateways write it,
// and the vendor's client takes it for an error.
func withoutNullError(data []byte) []byte {
	if !bytes.Contains(data, []byte(`"error"`)) {
		return data
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || string(fields["error"]) != "null" {
		return data
	}
	delete(fields, "error")
	clean, err := json.Marshal(fields)
	if err != nil {
		return data
	}
	return clean
}
