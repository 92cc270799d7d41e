package openai

import (
	"cmp"
	"encoding/json"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// event is one event of an answer of the Responses API, or, of a server that does not stream, the whole answer.
type event struct {
	Type        string     `json:"type"`
	OutputIndex int        `json:"output_index"`
	Delta       string     `json:"delta"`
	Item        outputItem `json:"item"`
	Response    response   `json:"response"`
}

// response is an answer as it is at its end.
type response struct {
	Status     string          `json:"status"`
	Error      json.RawMessage `json:"error"`
	Output     []outputItem    `json:"output"`
	Usage      json.RawMessage `json:"usage"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// outputItem is a piece of an answer: a text, a call or a thought.
type outputItem struct {
	thought

	Type      string    `json:"type"`
	Status    string    `json:"status"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments wire.Text `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

// The states of a response, and the reasons for which one ends early, that are distinguished.
const (
	completed    = "completed"
	incomplete   = "incomplete"
	outputLimit  = "max_output_tokens"
	outputFilter = "content_filter"
)

// output collects what single events do not say.
type output struct {
	calls      []llm.ToolCall
	thoughts   []thought // since the last call
	beforeText []thought
	reasoned   bool // something of a thought has been told
	said       bool // text has come, or a part of it
	index      int  // of the text's item
	items      int  // that are complete
	reason     string
	usage      *llm.Usage
}

// Event returns what an event has for the user now. Other types of events are ignored.
func (o *output) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	var e event
	_ = json.Unmarshal(raw, &e) // a field of an unexpected form must not hide the others
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return o.say(e.OutputIndex, e.Delta), nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		o.reasoned = true
		return []llm.Delta{{Reasoning: e.Delta}}, nil
	case "response.reasoning_summary_part.added":
		if o.reasoned {
			return []llm.Delta{{Reasoning: "\n\n"}}, nil
		}
	case "response.output_item.done":
		o.addItem(e.Item)
	case "response.completed", "response.incomplete", "response.failed":
		return o.finish(e.Response)
	case "error":
		return nil, new(wire.ParseProblem(raw))
	case "":
		var whole response
		_ = json.Unmarshal(raw, &whole)
		return o.finish(whole)
	}
	return nil, nil
}

// say returns a piece of text. Texts of several items are paragraphs.
func (o *output) say(index int, text string) []llm.Delta {
	if text == "" {
		return nil
	}
	if !o.said {
		o.beforeText, o.thoughts = o.thoughts, nil
	} else if index != o.index {
		text = "\n\n" + text
	}
	o.said, o.index = true, index
	return []llm.Delta{{Text: text}}
}

// addItem adds a complete item. In an answer that was cut off, partial arguments are not a call.
func (o *output) addItem(i outputItem) {
	o.items++
	switch {
	case i.Type == "reasoning" && i.ID != "" && i.EncryptedContent != "":
		o.thoughts = append(o.thoughts, i.thought)
	case i.Type == "function_call" && i.Name != "" && i.Status != incomplete:
		kept := metadata{Reasoning: o.thoughts}
		if len(o.calls) == 0 {
			kept.BeforeText = o.beforeText
		}
		o.thoughts = nil
		o.calls = append(o.calls, llm.ToolCall{
			ID: cmp.Or(i.CallID, wire.NewCallID()), Name: i.Name, Arguments: wire.Arguments(string(i.Arguments)),
			Metadata: encode(kept),
		})
	}
}

// finish takes the end of an answer, or a whole one, with what did not come before.
func (o *output) finish(r response) (out []llm.Delta, problem *wire.Problem) {
	if !wire.Missing(r.Error) {
		return nil, new(wire.ParseProblem(r.Error))
	}
	if r.Status != completed && r.Status != incomplete {
		return nil, nil
	}
	told, taken := o.said, o.items > 0
	for index, i := range r.Output {
		for _, c := range i.Content {
			if i.Type == "message" && !told {
				out = append(out, o.say(index, c.Text+c.Refusal)...)
			}
		}
		if !taken {
			o.addItem(i)
		}
	}
	o.reason = r.Status
	if r.Status == incomplete {
		o.reason = cmp.Or(r.Incomplete.Reason, outputLimit)
	}
	if !wire.Missing(r.Usage) {
		o.usage = counted(r.Usage)
	}
	return out, nil
}

// Over reports whether the answer has ended.
func (o *output) Over() bool { return o.reason != "" }

// End returns the calls, the usage and the stop reason.
func (o *output) End() []llm.Delta {
	early := llm.StopLength
	switch o.reason {
	case "":
		return nil
	case completed:
		early = ""
	case outputFilter:
		early = llm.StopFilter
	}
	return wire.End(o.calls, o.usage, early)
}
