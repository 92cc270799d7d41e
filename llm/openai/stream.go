package openai

import (
	"cmp"
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

		Usage json.RawMessage `json:"usage"` // Moonshot's
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Groq  struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`
	Error json.RawMessage `json:"error"`
	// Message is the error of a server that sends it without an envelope.
	Message json.RawMessage `json:"message"`
}

// words are what the model says in a chunk.
type words struct {
	Content          content `json:"content"`
	Refusal          string  `json:"refusal"`
	ReasoningContent string  `json:"reasoning_content"`
	Reasoning        string  `json:"reasoning"` // the name used by OpenRouter and vLLM
	ToolCalls        []piece `json:"tool_calls"`
}

// content is what the model says: a text, or parts, as Mistral's and Databricks's servers write it.
type content struct{ text, thought string }

// UnmarshalJSON reads a text or parts. What is neither is left out.
func (c *content) UnmarshalJSON(raw []byte) error {
	type said struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Refusal  string          `json:"refusal"`
		Thinking json.RawMessage `json:"thinking"` // parts of text, or one text
		Summary  json.RawMessage `json:"summary"`
	}
	if json.Unmarshal(raw, &c.text) == nil {
		return nil
	}
	var parts []json.RawMessage
	_ = json.Unmarshal(raw, &parts) // else there are none
	for _, part := range parts {
		var p said
		_ = json.Unmarshal(part, &p) // an odd field must not hide the others
		switch p.Type {
		case "thinking", "reasoning":
			for _, list := range []json.RawMessage{p.Thinking, p.Summary} {
				var thoughts content
				_ = thoughts.UnmarshalJSON(list) // it never fails
				c.thought += thoughts.text
			}
			c.thought += p.Text
		default:
			c.text += p.Text + p.Refusal
		}
	}
	return nil
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
	told := []json.RawMessage{c.Usage, c.Groq.Usage}
	for _, choice := range c.Choices {
		told = append(told, choice.Usage)
	}
	for _, usage := range told {
		if !wire.Missing(usage) {
			a.usage = counted(usage)
		}
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
	if thought := w.Reasoning + w.ReasoningContent + w.Content.thought; thought != "" {
		a.text.Apart = true
		out = append(out, llm.Delta{Reasoning: thought})
	}
	if text := w.Content.text + w.Refusal; text != "" && a.tags {
		out = append(out, a.text.Split(text)...)
	} else if text != "" {
		out = append(out, llm.Delta{Text: text})
	}
	for _, piece := range w.ToolCalls {
		a.calls.add(piece)
	}
	return out
}

// counted reads a usage object, in the names of either of OpenAI's APIs.
func counted(raw json.RawMessage) *llm.Usage {
	type details struct {
		Cached wire.Count `json:"cached_tokens"`
	}
	var u struct {
		Prompt        wire.Count `json:"prompt_tokens"`
		Completion    wire.Count `json:"completion_tokens"`
		Input         wire.Count `json:"input_tokens"`
		Output        wire.Count `json:"output_tokens"`
		PromptDetails details    `json:"prompt_tokens_details"`
		InputDetails  details    `json:"input_tokens_details"`
	}
	_ = json.Unmarshal(raw, &u) // what is missing is 0
	return &llm.Usage{
		InputTokens: int64(cmp.Or(u.Prompt, u.Input)), OutputTokens: int64(cmp.Or(u.Completion, u.Output)),
		CachedTokens: int64(cmp.Or(u.PromptDetails.Cached, u.InputDetails.Cached)), Raw: raw,
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
	return append(a.text.Rest(a.reason == "length"), wire.End(calls, a.usage, early[a.reason])...)
}

// early are the values of finish_reason of an answer that was cut off.
var early = map[string]llm.StopReason{"length": llm.StopLength, "content_filter": llm.StopFilter}
