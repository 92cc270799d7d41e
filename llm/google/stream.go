package google

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

const (
	unspecified = "FINISH_REASON_UNSPECIFIED"
	blocked     = "blockReason" // no reason to finish: the prompt is refused
)

// early are the reasons for which an answer is cut off: https://ai.google.dev/api/generate-content#FinishReason.
var early = map[string]llm.StopReason{
	"MAX_TOKENS": llm.StopLength, blocked: llm.StopRefusal, "SAFETY": llm.StopFilter, "RECITATION": llm.StopFilter,
	"LANGUAGE": llm.StopFilter, "BLOCKLIST": llm.StopFilter, "PROHIBITED_CONTENT": llm.StopFilter,
	"SPII": llm.StopFilter,
}

// chunk is one event of an answer.
type chunk struct {
	Candidates []struct {
		Content       content `json:"content"`
		FinishReason  string  `json:"finishReason"`
		FinishMessage string  `json:"finishMessage"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	UsageMetadata json.RawMessage `json:"usageMetadata"`
	Error         json.RawMessage `json:"error"`
}

// answer collects what single chunks do not say.
type answer struct {
	calls  []llm.ToolCall
	reason string // why the model has finished
	usage  *llm.Usage
}

// Event takes a chunk and returns its text and reasoning.
func (a *answer) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	var c chunk
	_ = json.Unmarshal(raw, &c) // a field of an unexpected form must not hide the others
	if !wire.Missing(c.Error) {
		return nil, new(wire.ParseProblem(raw))
	}
	if !wire.Missing(c.UsageMetadata) {
		a.usage = counted(c.UsageMetadata)
	}
	if c.PromptFeedback.BlockReason != "" {
		a.reason = blocked // there will be no candidate
	}
	if len(c.Candidates) == 0 {
		return nil, nil
	}
	candidate := c.Candidates[0] // only one was requested
	if candidate.FinishReason != "" && candidate.FinishReason != unspecified {
		a.reason = candidate.FinishReason
	}
	if malformed(a.reason) {
		return nil, &wire.Problem{Type: a.reason, Message: candidate.FinishMessage}
	}
	var text, thoughts strings.Builder
	for _, part := range candidate.Content.Parts {
		switch {
		case part.Thought:
			thoughts.WriteString(part.Text)
		case part.FunctionCall != nil:
			if part.FunctionCall.Name != "" {
				a.calls = append(a.calls, received(part))
			}
		default:
			text.WriteString(part.Text)
		}
	}
	if text.Len() == 0 && thoughts.Len() == 0 {
		return nil, nil
	}
	return []llm.Delta{{Text: text.String(), Reasoning: thoughts.String()}}, nil
}

// counted reads a usage object. Reasoning is counted separately from the answer, and what Google's
// own tools read separately from the prompt.
func counted(raw json.RawMessage) *llm.Usage {
	var u struct {
		Prompt     wire.Count `json:"promptTokenCount"`
		Tools      wire.Count `json:"toolUsePromptTokenCount"`
		Candidates wire.Count `json:"candidatesTokenCount"`
		Thoughts   wire.Count `json:"thoughtsTokenCount"`
		Cached     wire.Count `json:"cachedContentTokenCount"`
	}
	_ = json.Unmarshal(raw, &u) // what is missing is 0
	return &llm.Usage{
		InputTokens: int64(u.Prompt + u.Tools), OutputTokens: int64(u.Candidates + u.Thoughts),
		CachedTokens: int64(u.Cached), Raw: raw,
	}
}

// malformed reports whether the model tried to call a tool or to answer and failed, so that there is neither an
// answer nor a call.
func malformed(reason string) bool {
	switch reason {
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
		return true
	}
	return false
}

// Over is false until the stream ends.
func (a *answer) Over() bool { return false }

// End returns the calls, the usage and the stop reason.
func (a *answer) End() []llm.Delta {
	if a.reason == "" {
		return nil
	}
	return wire.End(a.calls, a.usage, early[a.reason])
}
