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
// database and in what the thread's watchers receive.
type mirror struct {
	turn    string // its id
	message string // the id of the assistant's
	send    func(Event)

	begun     bool
	parts     []thread.Part // as far as they were sent
	sentBytes int           // bytes of Message.Text that were sent
	inStep    bool
	blockID   string // of the last part while it may grow; empty for none
	blocks    map[bool]int
	questions map[string]question // by the call's id
	ended     bool
}

// question is what is known of the question about a call.
type question struct {
	nonce       string
	sent, ended bool
}

func newMirror(turn, message string, send func(Event)) *mirror {
	return &mirror{turn: turn, message: message, send: send, blocks: map[bool]int{}, questions: map[string]question{}}
}

func (r *mirror) emit(e Event) {
	e.MessageID = r.message
	r.send(e)
}

// take sends what is new in the message. A message that is older than what was sent adds
// nothing.
func (r *mirror) take(m thread.Message) {
	if !r.begun {
		r.begun = true
		r.emit(Event{Type: EventStart})
	}
	for i, p := range m.Parts {
		switch {
		case i < len(r.parts):
			r.change(i, p)
			continue
		case p.Type == "step-start":
			r.updateCalls(m.Parts[:i])
		}
		r.begin(p)
	}
	r.updateCalls(m.Parts)
	r.sentBytes = max(r.sentBytes, len(m.Text()))
	if m.Metadata.Status != thread.StatusInProgress {
		r.finish(m)
	}
}

// grow sends what was added to the last part. It returns false if that part, or text before the
// addition, is not known here.
func (r *mirror) grow(d persistence.Delta) bool {
	known := r.sentBytes - *d.Start
	last := len(r.parts) - 1
	switch {
	case known >= len(d.Text):
		return true
	case known < 0 || d.Part == nil || *d.Part != last || r.parts[last].Type != "text" || r.blockID == "":
		return false
	}
	r.sentBytes = *d.Start + len(d.Text)
	r.add(d.Text[known:], EventTextDelta)
	return true
}

// add adds text to the last part.
func (r *mirror) add(text string, kind EventType) {
	if text != "" {
		r.parts[len(r.parts)-1].Text += text
		r.emit(Event{Type: kind, TextID: r.blockID, Delta: text})
	}
}

// begin sends a new part.
func (r *mirror) begin(p thread.Part) {
	r.endBlock()
	sent := p
	sent.Text = ""
	if p.IsTool() {
		sent.State = thread.ToolInputAvailable
	}
	r.parts = append(r.parts, sent)
	switch {
	case p.IsTool():
		r.emit(Event{Type: EventToolInput, Call: callOf(p)})
	case p.Type == "step-start":
		r.endStep()
		r.inStep = true
		r.emit(Event{Type: EventStepStart})
	case p.Type == "text":
		r.beginBlock(false, EventTextStart)
		r.add(p.Text, EventTextDelta)
	case p.Type == "reasoning":
		r.beginBlock(true, EventReasoningStart)
		r.add(reasoningOf(p), EventReasoningDelta)
	}
}

func (r *mirror) beginBlock(reasoning bool, start EventType) {
	r.blocks[reasoning]++
	r.blockID = fmt.Sprintf("text-%d", r.blocks[reasoning])
	if reasoning {
		r.blockID = fmt.Sprintf("reasoning-%d", r.blocks[reasoning])
	}
	r.emit(Event{Type: start, TextID: r.blockID})
}

// change sends what was added to a part that was sent.
func (r *mirror) change(i int, p thread.Part) {
	if i < len(r.parts)-1 || r.blockID == "" {
		return
	}
	text, kind := p.Text, EventTextDelta
	if p.Type == "reasoning" {
		text, kind = reasoningOf(p), EventReasoningDelta
	}
	if sent := r.parts[i].Text; len(text) > len(sent) {
		r.add(text[len(sent):], kind)
	}
}

// updateCalls emits what has changed in calls that were emitted before. The calls of a step run
// in parallel.
func (r *mirror) updateCalls(parts []thread.Part) {
	for i, p := range parts {
		if sent := &r.parts[i]; p.IsTool() && sent.State == thread.ToolInputAvailable {
			sent.State = p.State
			r.updateCall(p)
		}
	}
}

// updateCall emits the question about a call, and its result.
func (r *mirror) updateCall(p thread.Part) {
	d, decided := toolkit.DecisionOf(p.Raw)
	if decided {
		r.ask(p.ToolCallID, d.ID)
	}
	if q, asked := r.questions[p.ToolCallID]; asked && !q.sent {
		q.sent = true
		r.questions[p.ToolCallID] = q
		e := callOf(p)
		e.Nonce = q.nonce
		r.emit(Event{Type: EventToolApproval, Call: e})
	}
	if decided {
		r.decide(p, d)
	}
	if p.State != thread.ToolInputAvailable {
		e := callOf(p)
		e.Input, e.Output, e.Error = nil, p.Output, p.ErrorText
		r.emit(Event{Type: EventToolOutput, Call: e})
	}
}

// ask notes that the user was asked about a call.
func (r *mirror) ask(callID, nonce string) {
	if _, known := r.questions[callID]; !known {
		r.questions[callID] = question{nonce: nonce}
	}
}

// decide sends the decision on a question that was sent.
func (r *mirror) decide(p thread.Part, d toolkit.Decision) {
	q := r.questions[p.ToolCallID]
	if !q.sent || q.ended {
		return
	}
	q.ended = true
	r.questions[p.ToolCallID] = q
	e := callOf(p)
	e.Input, e.Approved, e.Reason = nil, d.Approved, d.Reason
	r.emit(Event{Type: EventToolDecided, Call: e})
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
		r.ask(d.ToolCallID, d.Nonce)
	}
	for _, p := range r.parts {
		if !p.IsTool() || p.ToolCallID != d.ToolCallID || p.State != thread.ToolInputAvailable {
			continue
		}
		switch e.Type {
		case persistence.EventApprovalRequired:
			r.updateCall(p)
		case eventApprovalClosed:
			r.decide(p, toolkit.Decision{Approved: d.Approved, Reason: d.Reason})
		case eventToolProgress:
			call := callOf(p)
			call.Input, call.Message, call.Percent, call.Data = nil, d.Message, d.Percent, d.Data
			r.emit(Event{Type: EventToolProgress, Call: call})
		}
	}
}

func (r *mirror) endBlock() {
	if r.blockID == "" {
		return
	}
	end := EventTextEnd
	if r.parts[len(r.parts)-1].Type == "reasoning" {
		end = EventReasoningEnd
	}
	r.emit(Event{Type: end, TextID: r.blockID})
	r.blockID = ""
}

func (r *mirror) endStep() {
	if r.inStep {
		r.inStep = false
		r.emit(Event{Type: EventStepFinish})
	}
}

// finish sends the end.
func (r *mirror) finish(m thread.Message) {
	r.endBlock()
	r.endStep()
	r.ended = true
	r.emit(Event{Type: EventFinish, Result: resultOf(r.turn, m)})
}

// resultOf returns the result of a turn, read from its message. If the turn's process ended, the
// message does not say why.
func resultOf(turn string, m thread.Message) *Result {
	meta := m.Metadata
	result := &Result{TurnID: turn, MessageID: m.ID, Text: m.Text(), Status: meta.Status, Finish: FinishInterrupted, Message: m}
	var used usage
	_ = json.Unmarshal(meta.Usage, &used) // none in an answer that was cut off
	result.Usage = llm.Usage{InputTokens: used.Input, OutputTokens: used.Output, CachedTokens: used.Cached}
	read := func(key string, into any) bool {
		raw := meta.Extra[key]
		return raw != nil && json.Unmarshal(raw, into) == nil
	}
	read(extraProvider, &result.Provider)
	switch given := read(extraFinish, &result.Finish); {
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
			Kind: cmp.Or(failure.Kind, llm.KindUnavailable), Provider: result.Provider, Message: cmp.Or(failure.Message, "The answer broke off."),
		}
	case !given:
		result.Finish = FinishStop
	case result.Finish == FinishToolCalls:
		for _, p := range m.Parts {
			if p.IsTool() && p.State == thread.ToolInputAvailable {
				result.ToolCalls = append(result.ToolCalls, llm.ToolCall{ID: p.ToolCallID, Name: p.ToolName, Arguments: string(p.Input)})
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
