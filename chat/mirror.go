package chat

import (
	"cmp"
	"encoding/json"
	"fmt"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// mirror derives the events of another process's turn from its message, as it grows in the
// database, and from the thread's events.
type mirror struct {
	turn    string // its id
	message string // the id of the assistant's
	send    func(Event)

	// sent says what was sent: of a text how many bytes, by its place, as it may become reasoning; of anything else 1.
	sent   map[string]int
	nonces map[string]string // of the questions about calls, by the call's id
	open   []thread.Part     // the calls without a result
	ended  bool
}

func newMirror(turn, message string, send func(Event)) *mirror {
	return &mirror{turn: turn, message: message, send: send, sent: map[string]int{}, nonces: map[string]string{}}
}

// once sends what was not sent before.
func (r *mirror) once(what string, e Event) {
	if r.sent[what] == 0 {
		r.sent[what], e.MessageID = 1, r.message
		r.send(e)
	}
}

// take sends what is new in the message. A message that is older than what was sent adds
// nothing.
func (r *mirror) take(m thread.Message) {
	r.once("start", Event{Type: EventStart})
	finished, step := m.Metadata.Status != thread.StatusInProgress, 0
	texts := map[string]int{}
	for i, p := range m.Parts {
		switch at := fmt.Sprint(i); {
		case p.IsTool():
			r.once("call "+at, Event{Type: EventToolInput, Call: callOf(p)})
		case p.Type == "step-start":
			r.results(m.Parts[:i])
			r.endStep(step)
			step++
			r.once(fmt.Sprint("step ", step), Event{Type: EventStepStart})
		case p.Type == "text", p.Type == "reasoning":
			texts[p.Type]++
			text, events := p.Text, [3]EventType{EventTextStart, EventTextDelta, EventTextEnd}
			if p.Type == "reasoning" {
				text, events = reasoningOf(p), [3]EventType{EventReasoningStart, EventReasoningDelta, EventReasoningEnd}
			}
			id := fmt.Sprint(p.Type, "-", texts[p.Type])
			r.once("begin "+id, Event{Type: events[0], TextID: id})
			if sent := r.sent[at+id]; len(text) > sent {
				r.sent[at+id] = len(text)
				r.send(Event{Type: events[1], MessageID: r.message, TextID: id, Delta: text[sent:]})
			}
			if finished || i < len(m.Parts)-1 {
				r.once("end "+id, Event{Type: events[2], TextID: id})
			}
		}
	}
	r.results(m.Parts)
	if finished {
		r.endStep(step)
		r.ended = true
		r.once("finish", Event{Type: EventFinish, Result: resultOf(r.turn, m)})
	}
}

func (r *mirror) endStep(step int) {
	if step > 0 {
		r.once(fmt.Sprint("end of step ", step), Event{Type: EventStepFinish})
	}
}

// results sends the questions about calls, and what came of them. The calls of a step run in parallel.
func (r *mirror) results(parts []thread.Part) {
	r.open = nil
	for i, p := range parts {
		if !p.IsTool() {
			continue
		}
		d, decided := toolkit.DecisionOf(p.Raw)
		if decided {
			r.nonces[p.ToolCallID] = cmp.Or(r.nonces[p.ToolCallID], d.ID)
		}
		r.ask(p)
		if decided {
			r.decide(p, d)
		}
		if p.State == thread.ToolInputAvailable {
			r.open = append(r.open, p)
			continue
		}
		e := callOf(p)
		e.Input, e.Output = nil, p.Output
		e.Error = p.ErrorText
		r.once(fmt.Sprint("result ", i), Event{Type: EventToolOutput, Call: e})
	}
}

// ask sends the question about a call, if there is one.
func (r *mirror) ask(p thread.Part) {
	e := callOf(p)
	if e.Nonce = r.nonces[p.ToolCallID]; e.Nonce != "" {
		r.once("question "+p.ToolCallID, Event{Type: EventToolApproval, Call: e})
	}
}

// decide sends the decision on a question.
func (r *mirror) decide(p thread.Part, d toolkit.Decision) {
	e := callOf(p)
	e.Input, e.Approved = nil, d.Approved
	e.Reason = d.Reason
	r.once("decision "+p.ToolCallID, Event{Type: EventToolDecided, Call: e})
}

// toolData is the data of the events about a call that the thread's watchers receive.
type toolData struct {
	ToolCallID string          `json:"tool_call_id"`
	Nonce      string          `json:"nonce"`
	Approved   bool            `json:"approved"`
	Reason     string          `json:"reason"`
	Message    string          `json:"message"`
	Percent    float64         `json:"percent"`
	Data       json.RawMessage `json:"data"`
}

// takeCallEvent takes an event about a call, which may belong to another message.
func (r *mirror) takeCallEvent(e persistence.Event) {
	var d toolData
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	if e.Type == persistence.EventApprovalRequired {
		r.nonces[d.ToolCallID] = d.Nonce
	}
	for _, p := range r.open {
		switch {
		case p.ToolCallID != d.ToolCallID:
		case e.Type == persistence.EventApprovalRequired:
			r.ask(p)
		case e.Type == eventApprovalClosed && r.nonces[p.ToolCallID] != "":
			r.decide(p, toolkit.Decision{Approved: d.Approved, Reason: d.Reason})
		case e.Type == eventToolProgress:
			call := callOf(p)
			call.Input, call.Message = nil, d.Message
			call.Percent, call.Data = d.Percent, d.Data
			r.send(Event{Type: EventToolProgress, MessageID: r.message, Call: call})
		}
	}
}

// resultOf returns the result of a turn, read from its message. If the turn's process ended, the
// message does not say why.
func resultOf(turn string, m thread.Message) *Result {
	meta := m.Metadata
	result := &Result{
		TurnID: turn, MessageID: m.ID, Text: m.Text(), Status: meta.Status, Finish: FinishInterrupted, Message: m,
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
