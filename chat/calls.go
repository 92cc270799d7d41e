package chat

import (
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
	*toolkit.Invocation
	part int // index into the message's parts
	// asked says that the question about it is in the database, and told.
	asked bool
}

// invoke puts a call into the message.
func (t *Turn) invoke(call llm.ToolCall) (*callRun, error) {
	if call.ID == "" || len(call.ID) > persistence.MaxIDBytes || t.hasCall(call.ID) {
		call.ID = hashID(persistence.NewID())
	}
	call.Name = cutRunes(call.Name, 200)
	if call.Arguments == "" {
		call.Arguments = "{}"
	}
	run := &callRun{part: len(t.msg.Parts), Invocation: t.registry.Invoke(persistence.NewID(), toolkit.Call{
		ID: call.ID, Name: call.Name, Arguments: call.Arguments, Owner: t.req.Key.Owner, ThreadID: t.req.Key.Thread,
	}, min(4*toolkit.MaxKeptArguments, max(maxResults-t.results, 1)), time.Now())}
	run.SetMetadata(t.provider.Name(), call.Metadata)
	part := savedPart(run.Part())
	t.results += len(part.Input)
	t.msg.Parts = append(t.msg.Parts, part)
	t.calls = append(t.calls, run)
	t.emit(Event{Type: EventToolInput, Call: t.describe(run)})
	t.changed()
	t.ask(run)
	return run, t.save(func(b *persistence.Batch) error { return b.SaveToolCall(t.record(run)) })
}

func (t *Turn) hasCall(id string) bool {
	return slices.ContainsFunc(t.calls, func(run *callRun) bool { return run.Call.ID == id })
}

// record is what the table of tool calls has of a call.
func (t *Turn) record(run *callRun) persistence.ToolCall {
	r := run.Record()
	return persistence.ToolCall{
		ID: r.ID, MessageID: t.msg.ID, ToolCallID: r.ToolCallID, Name: r.Name, Executor: r.Executor, Server: r.Server,
		Status: persistence.ToolCallStatus(r.Status), Input: r.Input, Output: r.Output, Error: r.Error,
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
}

// savedPart is a call as a message has it.
func savedPart(p toolkit.Part) persistence.Part {
	part := persistence.ToolPart(p.Name)
	if p.Dynamic {
		part = persistence.DynamicToolPart(p.Name)
	}
	part.ToolCallID, part.State, part.Raw = p.CallID, persistence.ToolState(p.State), p.Fields
	part.Input, part.Output, part.ErrorText = p.Input, p.Output, p.ErrorText
	return part
}

func (t *Turn) describe(run *callRun) *EventCall {
	part := &t.msg.Parts[run.part]
	return &EventCall{
		ID: run.Call.ID, Name: run.Call.Name, Executor: run.Entry.Executor, Dynamic: part.Type == "dynamic-tool",
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
		if t.caller != nil && !t.caller.wait && t.caller.declared[run.Call.Name] {
			run.Leave()
			open = append(open, llm.ToolCall{
				ID: run.Call.ID, Name: run.Call.Name, Arguments: run.Call.Arguments, Metadata: run.Metadata(t.provider.Name()),
			})
			continue
		}
		r.running++
		if _, asked := run.Approval(); asked {
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
		result := toolkit.Drain(t.router.Call(t.ctx, run.Call), func(c toolkit.Chunk) { r.news <- ended{run: run, chunk: c} })
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
		if slices.ContainsFunc(r.asking, func(run *callRun) bool { return !run.Asking() }) {
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
		switch approval, _ := run.Approval(); approval.Outcome {
		case toolkit.ApprovalOpen:
			return false
		case toolkit.ApprovalApproved:
			// errLost ends the turn, and conclude finds it as the cause.
			_ = t.save(nil)
			r.start(run)
		default:
			r.running--
			t.resolve(run, toolkit.Result{Error: approval.Refusal()})
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
		"tool_call_id": run.Call.ID, "name": run.Call.Name, "executor": run.Entry.Executor,
		"message": c.Message, "percent": c.Percent, "data": c.Data,
	})
}

// resolve puts a call's result into the message.
func (t *Turn) resolve(run *callRun, result toolkit.Result) {
	if size := len(result.Output) + len(result.Model); !result.Failed() && t.results+size > maxResults {
		result = toolkit.Result{Error: fmt.Sprintf("the result has %d bytes, more than this answer has room for", len(result.Output))}
	}
	t.results += len(result.Output) + len(result.Model) + len(result.Error)
	t.finish(run, result, result.Failed() && t.ctx.Err() != nil)
	if t.ctx.Err() == nil {
		// errLost ends the turn, and conclude finds it as the cause.
		_ = t.save(func(b *persistence.Batch) error { return b.SaveToolCall(t.record(run)) })
	}
}

// finish ends a call, and tells of it.
func (t *Turn) finish(run *callRun, result toolkit.Result, cancelled bool) {
	t.stopAsking(run)
	if cancelled {
		run.Cancel(result, time.Now())
	} else {
		run.Finish(result, time.Now())
	}
	part := savedPart(run.Part())
	t.msg.Parts[run.part] = part
	e := t.describe(run)
	e.Input = nil
	e.Output, e.Error = part.Output, part.ErrorText
	t.emit(Event{Type: EventToolOutput, Call: e})
	t.changed()
}

// refuse answers calls that will not be run.
func (t *Turn) refuse(calls []*callRun) {
	for _, run := range calls {
		if run.Open() {
			t.finish(run, toolkit.Result{Error: "the limit of tool rounds of one turn is reached"}, false)
		}
	}
}

// closeCalls answers the calls that are open when the turn ends: with that why, or
// with what the user has not said.
func (t *Turn) closeCalls(why string) {
	for _, run := range t.calls {
		if !run.Open() {
			continue
		}
		t.stopAsking(run)
		words := why
		if approval, asked := run.Approval(); asked && !approval.Approved() {
			words = approval.Refusal()
		}
		t.finish(run, toolkit.Result{Error: words}, true)
	}
}
