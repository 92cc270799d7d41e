package openai

import (
	"encoding/json"

	openai "github.com/sashabaranov/go-openai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// answer collects what chunks do not say at once.
type answer struct {
	calls  pieces
	reason string // why the model has finished
	usage  *llm.Usage

	counted   json.RawMessage // the last usage as it was sent
	reasoning string          // by the name that OpenRouter and vLLM give it
	problem   *wire.Problem   // in the middle of the stream
}

// raw reads from an event what the client does not hand on as it was sent, and
// takes errors out of its way.
func (a *answer) raw(data []byte) []byte {
	var fields struct {
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			Delta struct {
				Reasoning string `json:"reasoning"`
			} `json:"delta"`
		} `json:"choices"`
	}
	_ = json.Unmarshal(data, &fields) // what is no object has neither
	if len(fields.Usage) > 0 && string(fields.Usage) != "null" {
		a.counted = fields.Usage
	}
	if len(fields.Choices) > 0 {
		a.reasoning += fields.Choices[0].Delta.Reasoning
	}
	if len(fields.Error) == 0 || string(fields.Error) == "null" { // some gateways write null
		return data
	}
	problem := wire.ParseProblem(data)
	a.problem = &problem
	return nil
}

// chunk returns what a chunk has for the user now.
func (a *answer) chunk(c openai.ChatCompletionStreamResponse) []llm.Delta {
	if c.Usage != nil {
		a.usage = &llm.Usage{InputTokens: int64(c.Usage.PromptTokens), OutputTokens: int64(c.Usage.CompletionTokens), Raw: a.counted}
		if d := c.Usage.PromptTokensDetails; d != nil {
			a.usage.CachedTokens = int64(d.CachedTokens)
		}
	}
	var out []llm.Delta
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one was asked for
		}
		if thought := a.reasoning + choice.Delta.ReasoningContent; thought != "" {
			a.reasoning = ""
			out = append(out, llm.Delta{Reasoning: thought})
		}
		if text := choice.Delta.Content + choice.Delta.Refusal; text != "" {
			out = append(out, llm.Delta{Text: text})
		}
		for _, piece := range choice.Delta.ToolCalls {
			a.calls.add(piece)
		}
		if choice.FinishReason != "" {
			a.reason = string(choice.FinishReason)
		}
	}
	return out
}

// finished reports whether the answer is whole. The usage comes later, and an
// answer without it is an answer. Gateways write "error" when their upstream has
// failed.
func (a *answer) finished() bool { return a.problem == nil && a.reason != "" && a.reason != "error" }

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
