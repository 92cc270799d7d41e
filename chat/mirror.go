package chat

import (
	"cmp"
	"encoding/json"
	"fmt"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// mirror makes the events of a turn of its message, as that grows in the database and
// as the thread's watchers hear of it. It is for a turn of another process.
type mirror struct {
	turn    string // its id
	message string // the id of the assistant's
	tell    func(Event)

	parts     []persistence.Part // that were told, as far as they were
	told      int                // bytes of Message.Text that were told
	inStep    bool
	blockID   string // of the last part while it may grow; empty for none
	blocks    map[bool]int
	questions map[string]question // by the call's id
	ended     bool
}

// question is what is known of the question about a call.
type question struct {
	nonce       string
	told, ended bool
}

func newMirror(turn, message string, tell func(Event)) *mirror {
	return &mirror{turn: turn, message: message, tell: tell, blocks: map[bool]int{}, questions: map[string]question{}}
}

func (r *mirror) emit(e Event) {
	e.MessageID = r.message
	r.tell(e)
}

// take tells what the message has that was not told. One that is older than what was
// told adds nothing.
func (r *mirror) take(m persistence.Message) {
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
	r.told = max(r.told, len(m.Text()))
	if m.Metadata.Status != persistence.StatusInProgress {
		r.finish(m)
	}
}

// grow tells what was added to the last part. It reports false when that part is not
// known here, or words before it are not.
func (r *mirror) grow(d persistence.Delta) bool {
	known := r.told - *d.Start
	last := len(r.parts) - 1
	switch {
	case known >= len(d.Text):
		return true
	case known < 0 || d.Part == nil || *d.Part != last || r.parts[last].Type != "text" || r.blockID == "":
		return false
	}
	r.told = *d.Start + len(d.Text)
	r.add(d.Text[known:], EventTextDelta)
	return true
}

// add adds words to the last part.
func (r *mirror) add(text string, kind EventType) {
	if text != "" {
		r.parts[len(r.parts)-1].Text += text
		r.emit(Event{Type: kind, TextID: r.blockID, Delta: text})
	}
}

// begin tells a part that is new.
func (r *mirror) begin(p persistence.Part) {
	r.endBlock()
	told := p
	told.Text = ""
	if p.IsTool() {
		told.State = persistence.ToolInputAvailable
	}
	r.parts = append(r.parts, told)
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

// change tells what was added to a part that was told.
func (r *mirror) change(i int, p persistence.Part) {
	if i < len(r.parts)-1 || r.blockID == "" {
		return
	}
	text, kind := p.Text, EventTextDelta
	if p.Type == "reasoning" {
		text, kind = reasoningOf(p), EventReasoningDelta
	}
	if told := r.parts[i].Text; len(text) > len(told) {
		r.add(text[len(told):], kind)
	}
}

// updateCalls emits what has changed about calls that were emitted before. Those of a step run side by side.
func (r *mirror) updateCalls(parts []persistence.Part) {
	for i, p := range parts {
		if told := &r.parts[i]; p.IsTool() && told.State == persistence.ToolInputAvailable {
			told.State = p.State
			r.updateCall(p)
		}
	}
}

// updateCall emits the question about a call, and its result.
func (r *mirror) updateCall(p persistence.Part) {
	d, decided := toolkit.DecisionOf(p.Raw)
	if decided {
		r.ask(p.ToolCallID, d.ID)
	}
	if q, asked := r.questions[p.ToolCallID]; asked && !q.told {
		q.told = true
		r.questions[p.ToolCallID] = q
		e := callOf(p)
		e.Nonce = q.nonce
		r.emit(Event{Type: EventToolApproval, Call: e})
	}
	if decided {
		r.decide(p, d)
	}
	if p.State != persistence.ToolInputAvailable {
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

// decide tells what came of a question that was told.
func (r *mirror) decide(p persistence.Part, d toolkit.Decision) {
	q := r.questions[p.ToolCallID]
	if !q.told || q.ended {
		return
	}
	q.ended = true
	r.questions[p.ToolCallID] = q
	e := callOf(p)
	e.Input, e.Approved, e.Reason = nil, d.Approved, d.Reason
	r.emit(Event{Type: EventToolDecided, Call: e})
}

// toolData is the data of the events about a call that the thread's watchers hear.
type toolData struct {
	ToolCallID string          `json:"tool_call_id"`
	Nonce      string          `json:"nonce"`
	Approved   bool            `json:"approved"`
	Reason     string          `json:"reason"`
	Message    string          `json:"message"`
	Percent    float64         `json:"percent"`
	Data       json.RawMessage `json:"data"`
}

// hear takes an event about a call, which may be one of another message.
func (r *mirror) hear(e persistence.Event) {
	var d toolData
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	if e.Type == persistence.EventApprovalRequired {
		r.ask(d.ToolCallID, d.Nonce)
	}
	for _, p := range r.parts {
		if !p.IsTool() || p.ToolCallID != d.ToolCallID || p.State != persistence.ToolInputAvailable {
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

// finish tells the end.
func (r *mirror) finish(m persistence.Message) {
	r.endBlock()
	r.endStep()
	r.ended = true
	r.emit(Event{Type: EventFinish, Result: resultOf(r.turn, m)})
}

// resultOf is what came of a turn, by its message. A turn whose process ended has not
// said why.
func resultOf(turn string, m persistence.Message) *Result {
	meta := m.Metadata
	result := &Result{TurnID: turn, MessageID: m.ID, Text: m.Text(), Status: meta.Status, Finish: FinishInterrupted, Message: m}
	read := func(key string, into any) bool {
		raw := meta.Extra[key]
		return raw != nil && json.Unmarshal(raw, into) == nil
	}
	read(extraProvider, &result.Provider)
	switch said := read(extraFinish, &result.Finish); {
	case meta.Status == persistence.StatusInterrupted:
		result.Finish = FinishInterrupted
	case meta.Status == persistence.StatusFailed:
		var failure struct {
			Kind    llm.ErrorKind `json:"kind"`
			Message string        `json:"message"`
		}
		read(extraError, &failure)
		result.Finish = FinishError
		result.Err = &llm.Error{
			Kind: cmp.Or(failure.Kind, llm.KindUnavailable), Provider: result.Provider, Message: cmp.Or(failure.Message, "The answer broke off."),
		}
	case !said:
		result.Finish = FinishStop
	}
	return result
}

// callOf is a call as events tell it, of its part.
func callOf(p persistence.Part) *EventCall {
	return &EventCall{ID: p.ToolCallID, Name: p.ToolName, Dynamic: p.Type == "dynamic-tool", Input: p.Input}
}

// reasoningOf is the text of a part of what the model thinks.
func reasoningOf(p persistence.Part) string {
	var part struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(p.Raw, &part) != nil {
		return ""
	}
	return part.Text
}
