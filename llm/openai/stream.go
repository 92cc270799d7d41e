package openai

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// chunk is one event of an answer.
type chunk struct {
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content          string  `json:"content"`
			Refusal          string  `json:"refusal"`
			ReasoningContent string  `json:"reasoning_content"`
			Reasoning        string  `json:"reasoning"` // the name used by OpenRouter and vLLM
			ToolCalls        []piece `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// answer collects what single chunks do not say.
type answer struct {
	calls  pieces
	think  strings.Builder
	reason string // why the model has finished
	usage  *llm.Usage
}

// Event returns what a chunk has for the user now.
func (a *answer) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	var c chunk
	_ = json.Unmarshal(raw, &c) // a field of an unexpected form must not hide the others
	if !wire.Missing(c.Error) { // some gateways write null
		return nil, new(wire.ParseProblem(raw))
	}
	if !wire.Missing(c.Usage) {
		a.usage = counted(c.Usage)
	}
	var out []llm.Delta
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one was requested
		}
		a.think.WriteString(choice.Delta.ReasoningContent)
		if thought := choice.Delta.Reasoning + choice.Delta.ReasoningContent; thought != "" {
			out = append(out, llm.Delta{Reasoning: thought})
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
	return out, nil
}

// counted reads a usage object.
func counted(raw json.RawMessage) *llm.Usage {
	var u struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	_ = json.Unmarshal(raw, &u) // what is missing is 0
	return &llm.Usage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, CachedTokens: u.Details.CachedTokens, Raw: raw}
}

// Over is false until the stream ends: the usage follows the stop reason.
func (a *answer) Over() bool { return false }

// End returns the calls, the usage and the stop reason. An answer without usage is valid. Gateways
// send the stop reason "error" if their upstream has failed.
func (a *answer) End() []llm.Delta {
	if a.reason == "" || a.reason == "error" {
		return nil
	}
	calls := a.calls.complete(a.reason == "length" || a.reason == "content_filter")
	if len(calls) > 0 {
		calls[0].Metadata = kept(a.think.String())
	}
	var out []llm.Delta
	for i := range calls {
		out = append(out, llm.Delta{ToolCall: &calls[i]})
	}
	return append(out, llm.Delta{Usage: a.usage, Stop: stop(a.reason, len(calls) > 0)})
}

// stop translates finish_reason. Some servers say "stop" even with calls.
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
