package google

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"voicebridge/llm"
)

// answer collects what chunks do not say at once.
type answer struct {
	raws    []rawChunk // read from the wire, not yet seen by chunk
	calls   []llm.ToolCall
	reason  string // why the model has finished
	message string // what it says to that
	usage   *llm.Usage
}

// rawChunk is what the vendor's client does not hand on as it was sent.
type rawChunk struct {
	Candidates []struct {
		Content struct {
			Parts []struct {
				FunctionCall *struct {
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
	} `json:"candidates"`
	UsageMetadata json.RawMessage `json:"usageMetadata"`
}

// arguments returns those of the part with a number, nil if there are none.
func (r rawChunk) arguments(part int) json.RawMessage {
	if len(r.Candidates) == 0 || part >= len(r.Candidates[0].Content.Parts) {
		return nil
	}
	call := r.Candidates[0].Content.Parts[part].FunctionCall
	if call == nil || string(call.Args) == "null" {
		return nil
	}
	return call.Args
}

// raw keeps an event before the vendor's client has it.
func (a *answer) raw(data []byte) []byte {
	var r rawChunk
	_ = json.Unmarshal(data, &r) // what does not fit is missing there too
	a.raws = append(a.raws, r)
	return data
}

// chunk takes a chunk and returns its text and thoughts. The client makes one of
// each event.
func (a *answer) chunk(c *genai.GenerateContentResponse) (d llm.Delta) {
	var raw rawChunk
	if len(a.raws) > 0 {
		raw, a.raws = a.raws[0], a.raws[1:]
	}
	if u := c.UsageMetadata; u != nil {
		a.usage = &llm.Usage{
			InputTokens:  int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
			OutputTokens: int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
			CachedTokens: int64(u.CachedContentTokenCount),
			Raw:          raw.UsageMetadata,
		}
	}
	if f := c.PromptFeedback; f != nil && f.BlockReason != "" {
		a.reason = string(genai.FinishReasonSafety) // there will be no candidate
	}
	if len(c.Candidates) == 0 || c.Candidates[0] == nil {
		return d
	}
	candidate := c.Candidates[0] // only one was asked for
	if candidate.FinishReason != "" && candidate.FinishReason != genai.FinishReasonUnspecified {
		a.reason, a.message = string(candidate.FinishReason), candidate.FinishMessage
	}
	if candidate.Content == nil {
		return d
	}
	var text, thoughts strings.Builder
	for i, part := range candidate.Content.Parts {
		switch {
		case part == nil:
		case part.Thought:
			thoughts.WriteString(part.Text)
		case part.FunctionCall != nil:
			if part.FunctionCall.Name != "" {
				a.calls = append(a.calls, received(part, raw.arguments(i)))
			}
		default:
			text.WriteString(part.Text)
		}
	}
	return llm.Delta{Text: text.String(), Reasoning: thoughts.String()}
}

// finished reports whether the answer is whole.
func (a *answer) finished() bool { return a.reason != "" }

// malformed reports whether the model has tried to call a tool and failed, so
// that there is neither an answer nor a call.
func (a *answer) malformed() bool {
	switch genai.FinishReason(a.reason) {
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall, genai.FinishReasonTooManyToolCalls:
		return true
	}
	return false
}

// end returns the calls, the usage and the reason of the end.
func (a *answer) end() []llm.Delta {
	var out []llm.Delta
	for i := range a.calls {
		out = append(out, llm.Delta{ToolCall: &a.calls[i]})
	}
	return append(out, llm.Delta{Usage: a.usage, Stop: stop(genai.FinishReason(a.reason), len(a.calls) > 0)})
}

// stop translates finishReason, which is STOP beside calls too.
func stop(reason genai.FinishReason, calls bool) llm.StopReason {
	switch reason {
	case genai.FinishReasonMaxTokens:
		return llm.StopLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return llm.StopFilter
	}
	if calls {
		return llm.StopToolCalls
	}
	return llm.StopEnd
}
