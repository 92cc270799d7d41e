package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"voicebridge/llm"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// savedReply is a turn that is over, as its message tells it.
type savedReply struct{ message thread.Message }

// ID is empty: the message does not tell it.
func (savedReply) ID() string { return "" }

func (r savedReply) MessageID() string { return r.message.ID }

func (r savedReply) Wait(context.Context) (Result, error) { return *resultOf(r.message), nil }

// Events yields the events of the turn, always from the beginning: with the words of a block in one piece they have
// other numbers than those of the turn itself.
func (r savedReply) Events(context.Context, int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for i, e := range eventsOf(r.message) {
			e.Index, e.MessageID = i, r.message.ID
			if !yield(e, nil) {
				return
			}
		}
	}
}

// eventsOf returns the events of the turn that has made a message.
func eventsOf(m thread.Message) []Event {
	events := []Event{{Type: EventStart}}
	step, told := 0, 0
	endStep := func(until int) {
		events = append(events, resultsOf(m.Parts[told:until])...)
		if told = until; step > 0 {
			events = append(events, Event{Type: EventStepFinish})
		}
	}
	texts := map[string]int{}
	for i, p := range m.Parts {
		switch {
		case p.IsTool():
			events = append(events, Event{Type: EventToolInput, Call: callOf(p)})
		case p.Type == "step-start":
			endStep(i)
			step++
			events = append(events, Event{Type: EventStepStart})
		case p.Type == "text", p.Type == "reasoning":
			texts[p.Type]++
			text, kinds := p.Text, [3]EventType{EventTextStart, EventTextDelta, EventTextEnd}
			if p.Type == "reasoning" {
				text, kinds = reasoningOf(p), [3]EventType{EventReasoningStart, EventReasoningDelta, EventReasoningEnd}
			}
			id := fmt.Sprint(p.Type, "-", texts[p.Type])
			events = append(events, Event{Type: kinds[0], TextID: id})
			if text != "" {
				events = append(events, Event{Type: kinds[1], TextID: id, Delta: text})
			}
			events = append(events, Event{Type: kinds[2], TextID: id})
		}
	}
	endStep(len(m.Parts))
	return append(events, Event{Type: EventFinish, Result: resultOf(m)})
}

// resultsOf returns the questions about calls, and what came of them.
func resultsOf(parts []thread.Part) (events []Event) {
	for _, p := range parts {
		if !p.IsTool() {
			continue
		}
		if d, decided := toolkit.DecisionOf(p.Raw); decided {
			asked, answered := callOf(p), callOf(p)
			asked.Nonce = d.ID
			answered.Input, answered.Approved, answered.Reason = nil, d.Approved, d.Reason
			events = append(events,
				Event{Type: EventToolApproval, Call: asked}, Event{Type: EventToolDecided, Call: answered})
		}
		if p.State != thread.ToolInputAvailable {
			done := callOf(p)
			done.Input, done.Output = nil, p.Output
			done.Error = p.ErrorText
			events = append(events, Event{Type: EventToolOutput, Call: done})
		}
	}
	return events
}

// resultOf returns the result of a turn, read from its message. If the turn's process ended, the
// message does not say why.
func resultOf(m thread.Message) *Result {
	meta := m.Metadata
	result := &Result{
		MessageID: m.ID, Text: m.Text(), Status: meta.Status, Finish: FinishInterrupted, Message: m,
	}
	var used usage
	_ = json.Unmarshal(meta.Usage, &used) // none in an answer that was cut off
	result.Usage = llm.Usage{InputTokens: used.Input, OutputTokens: used.Output, CachedTokens: used.Cached}
	read := func(key string, into any) bool {
		raw := meta.Extra[key]
		return raw != nil && json.Unmarshal(raw, into) == nil
	}
	read(extraProvider, &result.Provider)
	switch finished := read(extraFinish, &result.Finish); {
	case meta.Status == thread.StatusInterrupted:
		result.Finish = FinishInterrupted
	case meta.Status == thread.StatusFailed:
		var failure struct {
			Kind    llm.ErrorKind `json:"kind"`
			Message string        `json:"message"`
		}
		read(extraError, &failure)
		result.Finish = FinishError
		result.Err = &llm.Error{
			Kind: cmp.Or(failure.Kind, llm.KindUnavailable), Provider: result.Provider,
			Message: cmp.Or(failure.Message, "The answer broke off."),
		}
	case !finished:
		result.Finish = FinishStop
	case result.Finish == FinishToolCalls:
		for _, p := range m.Parts {
			if p.IsTool() && p.State == thread.ToolInputAvailable {
				result.ToolCalls = append(result.ToolCalls,
					llm.ToolCall{ID: p.ToolCallID, Name: p.ToolName, Arguments: string(p.Input)})
			}
		}
	}
	return result
}

// callOf returns the call of a part, as it appears in events.
func callOf(p thread.Part) *EventCall {
	return &EventCall{ID: p.ToolCallID, Name: p.ToolName, Dynamic: p.Type == "dynamic-tool", Input: p.Input}
}

// reasoningOf returns the text of a part with reasoning.
func reasoningOf(p thread.Part) string {
	var part struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(p.Raw, &part) != nil {
		return ""
	}
	return part.Text
}
