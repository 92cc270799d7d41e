package ollama

import (
	"encoding/json"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// line is one line of an answer.
type line struct {
	Message struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls []call `json:"tool_calls"`
	} `json:"message"`
	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason"`
	counts
	// Error ends a begun answer.
	Error json.RawMessage `json:"error"`
}

// counts are the last line's token counts and times, in nanoseconds.
type counts struct {
	TotalDuration      int64 `json:"total_duration,omitempty"`
	LoadDuration       int64 `json:"load_duration,omitempty"`
	PromptEvalCount    int64 `json:"prompt_eval_count,omitempty"`
	PromptEvalDuration int64 `json:"prompt_eval_duration,omitempty"`
	EvalCount          int64 `json:"eval_count,omitempty"`
	EvalDuration       int64 `json:"eval_duration,omitempty"`
}

// answer collects what single lines do not say.
type answer struct {
	text  wire.Thoughts
	calls []llm.ToolCall
	last  *line
}

// Event takes a line and returns its text and reasoning.
func (a *answer) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	var l line
	_ = json.Unmarshal(raw, &l) // a field of an unexpected form must not hide the others
	if !wire.Missing(l.Error) {
		return nil, new(wire.ParseProblem(raw))
	}
	for _, c := range l.Message.ToolCalls {
		if c.Function.Name != "" {
			a.calls = append(a.calls, received(c, a.calls))
		}
	}
	if l.Done {
		a.last = &l
	}
	var out []llm.Delta
	if l.Message.Thinking != "" {
		a.text.Apart = true
		out = append(out, llm.Delta{Reasoning: l.Message.Thinking})
	}
	if l.Message.Content != "" {
		out = append(out, a.text.Split(l.Message.Content)...)
	}
	return out, nil
}

// Over reports whether the last line has come.
func (a *answer) Over() bool { return a.last != nil }

// End returns the calls, the usage and the stop reason.
func (a *answer) End() []llm.Delta {
	if a.last == nil {
		return nil
	}
	var early llm.StopReason
	if a.last.DoneReason == "length" {
		early = llm.StopLength
	}
	var usage *llm.Usage
	if raw, err := json.Marshal(a.last.counts); err == nil && a.last.counts != (counts{}) {
		usage = &llm.Usage{InputTokens: a.last.PromptEvalCount, OutputTokens: a.last.EvalCount, Raw: raw}
	}
	return append(a.text.Rest(early != ""), wire.End(a.calls, usage, early)...)
}
