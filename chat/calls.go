package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// sideBySide is how many calls of one step run at a time.
const sideBySide = 8

// callRun is one call of the model.
type callRun struct {
	call  llm.ToolCall
	entry toolkit.Entry
	part  int // index into the message's parts
	// input and result are as they are: what is kept and shown is without secrets,
	// the model of this turn gets all.
	input  json.RawMessage
	result toolkit.Result
	record persistence.ToolCall
	done   bool
	// question is what the user is asked before the tool runs; nil for none.
	question *question
}

// call puts a call into the message.
func (t *Turn) call(call llm.ToolCall) (*callRun, error) {
	if call.ID == "" || len(call.ID) > persistence.MaxIDBytes || t.hasCall(call.ID) {
		call.ID = hashID(newID())
	}
	call.Name = cutRunes(call.Name, 200)
	if call.Arguments == "" {
		call.Arguments = "{}"
	}
	entry, known := t.registry.Lookup(call.Name)
	if !known {
		entry.Executor = toolkit.ExecutorApp // the router says that there is no such tool
	}
	part := persistence.DynamicToolPart(cmp.Or(call.Name, "unknown")) // a part has a name
	if known && entry.Executor == toolkit.ExecutorApp {
		part = persistence.ToolPart(call.Name)
	}
	arguments := toolkit.MaskArguments(call.Arguments)
	input := t.input(call.Arguments)
	part.ToolCallID, part.State, part.Input = call.ID, persistence.ToolInputAvailable, input
	if arguments != call.Arguments {
		part.Input = t.input(arguments)
	}
	setCallMetadata(&part, t.provider.Name(), call.Metadata)
	run := &callRun{call: call, entry: entry, part: len(t.msg.Parts), input: input}
	run.record = persistence.ToolCall{
		ID: newID(), MessageID: t.msg.ID, ToolCallID: call.ID, Name: call.Name, Executor: string(entry.Executor),
		Server: entry.Server, Status: persistence.ToolCallRunning, Input: cutRunes(arguments, maxArguments), StartedAt: time.Now(),
	}
	t.msg.Parts = append(t.msg.Parts, part)
	t.calls = append(t.calls, run)
	t.emit(Event{Type: EventToolInput, Call: t.describe(run)})
	t.changed()
	t.ask(run)
	return run, t.save(func(b *persistence.Batch) error { return b.SaveToolCall(run.record) })
}

func (t *Turn) hasCall(id string) bool {
	for _, run := range t.calls {
		if run.call.ID == id {
			return true
		}
	}
	return false
}

// input is a call's arguments as JSON that fits into the message.
func (t *Turn) input(arguments string) json.RawMessage {
	data := json.RawMessage(arguments)
	if !json.Valid(data) || toolkit.Depth(data) > 100 {
		data = encode(cutRunes(arguments, maxArguments))
	}
	if len(data) > 4*maxArguments || t.results+len(data) > maxResults {
		data = encode(map[string]string{"note": "the arguments are too long to keep"})
	}
	t.results += len(data)
	return bytes.Clone(data)
}

func (t *Turn) describe(run *callRun) *EventCall {
	part := &t.msg.Parts[run.part]
	return &EventCall{
		ID: run.call.ID, Name: run.call.Name, Executor: run.entry.Executor, Dynamic: part.Type == "dynamic-tool",
		Input: part.Input,
	}
}

// ended is what a goroutine that runs a call says: progress, or the result.
type ended struct {
	run    *callRun
	chunk  toolkit.Chunk
	result *toolkit.Result
}

// runCalls runs the calls of a step side by side and waits for all of them. It
// returns those that are left for the caller.
func (t *Turn) runCalls(calls []*callRun) (open []llm.ToolCall, err error) {
	r := &runner{t: t, news: make(chan ended), slots: make(chan struct{}, sideBySide)}
	for _, run := range calls {
		if t.caller != nil && !t.caller.wait && t.caller.declared[run.call.Name] {
			run.done, run.record.Status = true, persistence.ToolCallWaiting
			open = append(open, run.call)
			continue
		}
		r.running++
		if run.question != nil {
			r.asking = append(r.asking, run)
			continue
		}
		r.start(run)
	}
	// A tool that was told to stop still has its say: the router sees to it that
	// it is not long.
	for r.running > 0 {
		n, lost := r.next()
		if lost != nil {
			err = lost
		}
		switch {
		case n.result != nil:
			r.running--
			t.resolve(n.run, *n.result)
		case n.run != nil:
			t.progress(n.run, n.chunk)
		}
		r.settle()
	}
	if err == nil && t.ctx.Err() != nil {
		err = errInterrupted
	}
	return open, err
}

// runner runs the calls of one step.
type runner struct {
	t       *Turn
	news    chan ended
	slots   chan struct{}
	running int        // calls without a result
	asking  []*callRun // those of them that wait for the user's word
}

// start runs the tool of a call.
func (r *runner) start(run *callRun) {
	t := r.t
	t.side.Go(func() {
		r.slots <- struct{}{}
		defer func() { <-r.slots }()
		result := toolkit.Drain(t.router.Call(t.ctx, toolkit.Call{
			ID: run.call.ID, Name: run.call.Name, Arguments: run.call.Arguments, Owner: t.req.Key.Owner, ThreadID: t.req.Key.Thread,
		}), func(c toolkit.Chunk) { r.news <- ended{run: run, chunk: c} })
		r.news <- ended{run: run, result: &result}
	})
}

// next waits until a tool says something or the user has decided.
func (r *runner) next() (n ended, lost error) {
	var stopped <-chan struct{}
	if len(r.asking) > 0 {
		stopped = r.t.ctx.Done() // nobody else would end the waiting
	}
	lost = r.t.waitFor(func(clock <-chan time.Time) bool {
		if slices.ContainsFunc(r.asking, func(run *callRun) bool { return !run.question.open() }) {
			return true
		}
		select {
		case n = <-r.news:
		case <-stopped:
		case <-r.t.decision:
			r.t.keptAt = time.Time{} // look now
			return false
		case <-clock:
			return false
		}
		return true
	})
	return n, lost
}

// settle starts or refuses the calls on which there is a decision.
func (r *runner) settle() {
	t := r.t
	r.asking = slices.DeleteFunc(r.asking, func(run *callRun) bool {
		if t.ctx.Err() != nil {
			t.stopAsking(run)
		}
		switch q := run.question; q.approval.Outcome {
		case persistence.ApprovalOpen:
			return false
		case persistence.ApprovalApproved:
			// errLost ends the turn, and conclude finds it as the cause.
			_ = t.save(nil)
			r.start(run)
		default:
			r.running--
			t.resolve(run, toolkit.Result{Error: q.refusal()})
		}
		return true
	})
}

// progress tells how a tool comes along.
func (t *Turn) progress(run *callRun, c toolkit.Chunk) {
	e := t.describe(run)
	e.Input = nil
	e.Message, e.Percent, e.Data = c.Message, c.Percent, c.Data
	t.emit(Event{Type: EventToolProgress, Call: e})
	t.publish("tool_progress", map[string]any{
		"tool_call_id": run.call.ID, "name": run.call.Name, "executor": run.entry.Executor,
		"message": c.Message, "percent": c.Percent, "data": c.Data,
	})
}

// resolve puts a call's result into the message.
func (t *Turn) resolve(run *callRun, result toolkit.Result) {
	part := &t.msg.Parts[run.part]
	if size := len(result.Output) + len(ownResult(result)); !result.Failed() && t.results+size > maxResults {
		result = toolkit.Result{Error: fmt.Sprintf("the result has %d bytes, more than this answer has room for", len(result.Output))}
	}
	run.result = result
	result.Output, result.Model = toolkit.Mask(result.Output), string(toolkit.Mask([]byte(result.Model)))
	result.Error = toolkit.MaskArguments(result.Error)
	status := persistence.ToolCallDone
	if result.Failed() {
		status = persistence.ToolCallFailed
		if t.ctx.Err() != nil {
			status = persistence.ToolCallCancelled
		}
		part.State, part.ErrorText = persistence.ToolOutputError, result.Error
	} else {
		part.State = persistence.ToolOutputAvailable
		setResult(part, result)
		t.results += len(ownResult(result))
	}
	t.results += len(result.Output) + len(result.Error)
	t.closeCall(run, status, result)
	t.changed()
	if t.ctx.Err() == nil {
		// errLost ends the turn, and conclude finds it as the cause.
		_ = t.save(func(b *persistence.Batch) error { return b.SaveToolCall(run.record) })
	}
}

// setResult puts what a tool gave into its part, with the words for the model where
// they are others.
func setResult(p *persistence.Part, result toolkit.Result) {
	p.Output = bytes.Clone(result.Output)
	if result.Model != "" && result.Model != modelOutput(result.Output) {
		setCallMetadata(p, ownMetadata, ownResult(result))
	}
}

func ownResult(result toolkit.Result) json.RawMessage {
	return encode(map[string]string{"result": result.Model})
}

// whole is the call's part with all that is masked in the one that is kept.
func (run *callRun) whole(p persistence.Part) persistence.Part {
	p.Input = run.input
	switch {
	case p.State == persistence.ToolOutputAvailable:
		setResult(&p, run.result)
	case run.result.Failed():
		p.ErrorText = run.result.Error
	}
	return p
}

func (t *Turn) closeCall(run *callRun, status persistence.ToolCallStatus, result toolkit.Result) {
	run.done = true
	t.stopAsking(run)
	t.keepDecision(run)
	r := &run.record
	r.Status, r.Output, r.Error, r.FinishedAt = status, string(result.Output), result.Error, new(time.Now())
	e := t.describe(run)
	e.Input = nil
	e.Output, e.Error = t.msg.Parts[run.part].Output, result.Error
	t.emit(Event{Type: EventToolOutput, Call: e})
}

// refuse answers calls that will not be run.
func (t *Turn) refuse(calls []*callRun) {
	for _, run := range calls {
		if !run.done {
			t.fail(run, "the limit of tool rounds of one turn is reached", persistence.ToolCallFailed)
		}
	}
}

// closeCalls answers the calls that are open when the turn ends: with that why, or
// with what the user has not said.
func (t *Turn) closeCalls(why string, status persistence.ToolCallStatus) {
	for _, run := range t.calls {
		switch {
		case run.done:
		case run.question != nil && !run.question.approved():
			t.stopAsking(run)
			t.fail(run, run.question.refusal(), status)
		default:
			t.fail(run, why, status)
		}
	}
}

func (t *Turn) fail(run *callRun, why string, status persistence.ToolCallStatus) {
	part := &t.msg.Parts[run.part]
	part.State, part.ErrorText = persistence.ToolOutputError, why
	t.closeCall(run, status, toolkit.Result{Error: why})
	t.changed()
}
