package openai

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// chunk is one event of an answer, or the whole answer of a server that does not stream.
type chunk struct {
	Choices []struct {
		Index        int    `json:"index"`
		Delta        words  `json:"delta"`
		Message      words  `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
	// Message is the error of a server that sends it without an envelope.
	Message json.RawMessage `json:"message"`
}

// words are what the model says in a chunk.
type words struct {
	Content          string  `json:"content"`
	Refusal          string  `json:"refusal"`
	ReasoningContent string  `json:"reasoning_content"`
	Reasoning        string  `json:"reasoning"` // the name used by OpenRouter and vLLM
	ToolCalls        []piece `json:"tool_calls"`
}

// answer collects what single chunks do not say.
type answer struct {
	tags   bool // what the model thinks may be in the text
	text   wire.Thoughts
	calls  pieces
	think  strings.Builder
	reason string // why the model has finished
	usage  *llm.Usage
}

// Event returns what a chunk has for the user now.
func (a *answer) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	var c chunk
	_ = json.Unmarshal(raw, &c) // a field of an unexpected form must not hide the others
	bare := len(c.Choices) == 0 && !wire.Missing(c.Message)
	if bare || !wire.Missing(c.Error) { // some gateways write null
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
		for i := range choice.Message.ToolCalls {
			choice.Message.ToolCalls[i].Index = i // it has none
		}
		out = append(append(out, a.read(choice.Delta)...), a.read(choice.Message)...)
		if choice.FinishReason != "" {
			a.reason = choice.FinishReason
		}
	}
	return out, nil
}

// read returns what words have for the user now.
func (a *answer) read(w words) (out []llm.Delta) {
	a.think.WriteString(w.ReasoningContent)
	if thought := w.Reasoning + w.ReasoningContent; thought != "" {
		out = append(out, llm.Delta{Reasoning: thought})
	}
	if text := w.Content + w.Refusal; text != "" && a.tags {
		out = append(out, a.text.Split(text)...)
	} else if text != "" {
		out = append(out, llm.Delta{Text: text})
	}
	for _, piece := range w.ToolCalls {
		a.calls.add(piece)
	}
	return out
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
	return &llm.Usage{
		InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, CachedTokens: u.Details.CachedTokens, Raw: raw,
	}
}

// Over is false until the stream ends: the usage follows the stop reason.
func (a *answer) Over() bool { return false }

// End returns the calls, the usage and the stop reason. An answer without usage is valid. Gateways
// send the stop reason "error" if their upstream has failed.
func (a *answer) End() []llm.Delta {
	if a.reason == "" || a.reason == "error" {
		return nil
	}
	calls := a.calls.complete(early[a.reason] != "")
	if len(calls) > 0 {
		calls[0].Metadata = kept(a.think.String())
	}
	return append(a.text.Rest(), wire.End(calls, a.usage, early[a.reason])...)
}

// early are the values of finish_reason of an answer that was cut off.
var early = map[string]llm.StopReason{"length": llm.StopLength, "content_filter": llm.StopFilter}
