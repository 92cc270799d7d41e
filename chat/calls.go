package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// maxParallel limits the calls of one step that run at a time.
const maxParallel = 8

// tools runs the calls of a turn. It belongs to the turn's goroutine.
type tools struct {
	ctx      context.Context // of the turn
	key      thread.Key
	secrets  []string
	provider string
	registry *toolkit.Registry
	router   *toolkit.Router
	approve  toolkit.Names
	left     func(name string) bool // says whether a tool's calls end the turn and wait for the client
	draft    *draft
	saver    *saver
	asks     *questions
	side     *sync.WaitGroup

	all []*call
	// taken are the ids of these calls, and of those in the conversation before: some models count from 0 in each
	// answer.
	taken map[string]bool
}

// invoke puts a call into the message. last means that it will not be run, since the turn has used up its rounds.
func (t *tools) invoke(asked llm.ToolCall, last bool) *call {
	if asked.ID == "" || len(asked.ID) > thread.MaxIDBytes || t.taken[asked.ID] {
		asked.ID = hashID(persistence.NewID())
	}
	t.taken[asked.ID] = true
	c := &call{Invocation: t.registry.Invoke(persistence.NewID(), toolkit.Call{
		ID: asked.ID, Name: cutRunes(asked.Name, 200), Arguments: cmp.Or(asked.Arguments, "{}"), Owner: t.key.Owner,
		ThreadID: t.key.Thread, Secrets: t.secrets,
	}, min(4*toolkit.MaxKeptArguments, max(maxOutputs-t.draft.outputs, 1)), time.Now())}
	c.SetMetadata(t.provider, asked.Metadata)
	part := c.Part()
	t.draft.outputs += len(part.Input)
	c.part = t.draft.add(part)
	t.all = append(t.all, c)
	e := c.event()
	e.Input, e.Asks = part.Input, !last && c.NeedsApproval(t.approve) && c.Entry.Executor != toolkit.ExecutorClient
	if c.Entry.Executor == toolkit.ExecutorClient {
		e.Arguments = c.Call.Arguments
	}
	t.draft.emit(Event{Type: EventToolInput, Call: e})
	if e.Asks {
		t.asks.ask(c)
	} else {
		t.record(c)
	}
	return c
}

// record saves the call in the table of tool calls.
func (t *tools) record(c *call) {
	t.saver.put(persistence.PutToolCall{ToolCall: c.record(t.draft.msg.ID)})
}

// run runs the calls of a step and waits for all of them: those of the server's tools concurrently, those of the client
// one by one, as the model has ordered them. It returns those that are left to the client.
func (t *tools) run(calls []*call) (open []llm.ToolCall, err error) {
	if err := t.saver.flush(t.ctx); err != nil {
		return nil, err
	}
	r := &round{t: t, events: make(chan toolEvent), slots: make(chan struct{}, maxParallel)}
	for _, c := range calls {
		if t.left(c.Call.Name) {
			c.Leave()
			t.record(c)
			open = append(open, c.forClient(t.provider))
			continue
		}
		r.running++
		_, asked := c.Approval()
		switch {
		case asked:
			r.waiting = append(r.waiting, c)
		case c.Entry.Executor == toolkit.ExecutorClient:
			r.client = append(r.client, c)
		default:
			r.start(c)
		}
	}
	r.startNext()
	r.applyDecisions() // an approval may already be decided
	// A tool that was told to stop may still answer; the router makes sure that it does not take
	// long.
	for r.running > 0 {
		e := r.next()
		switch {
		case e.result != nil:
			r.running--
			t.resolve(e.call, *e.result)
			if e.call.Entry.Executor == toolkit.ExecutorClient {
				r.startNext()
			}
		case e.call != nil:
			t.progress(e.call, e.chunk)
		}
		r.applyDecisions()
	}
	return open, context.Cause(t.ctx)
}

// eventToolProgress reports a tool's progress to the thread's watchers.
const eventToolProgress persistence.EventType = "tool_progress"

// progress reports a tool's progress.
func (t *tools) progress(c *call, chunk toolkit.Chunk) {
	e := c.event()
	e.Message, e.Percent = chunk.Message, chunk.Percent
	e.Data = chunk.Data
	t.draft.emit(Event{Type: EventToolProgress, Call: e})
	t.draft.publish(eventToolProgress, map[string]any{
		"tool_call_id": c.Call.ID, "name": c.Call.Name, "executor": c.Entry.Executor,
		"message": chunk.Message, "percent": chunk.Percent, "data": chunk.Data,
	})
}

// resolve puts a call's result into the message.
func (t *tools) resolve(c *call, result toolkit.Result) {
	if size := len(result.Output) + len(result.Model); !result.Failed() && t.draft.outputs+size > maxOutputs {
		result = toolkit.Result{
			Error: fmt.Sprintf("the result has %d bytes, more than this answer has room for", len(result.Output)),
		}
	}
	t.draft.outputs += len(result.Output) + len(result.Model) + len(result.Error)
	t.end(c, result, result.Failed() && t.ctx.Err() != nil)
}

// end ends a call, and announces it.
func (t *tools) end(c *call, result toolkit.Result, cancelled bool) {
	t.asks.drop(c)
	if cancelled {
		c.Cancel(result, time.Now())
	} else {
		c.Finish(result, time.Now())
	}
	t.record(c)
	part := c.Part()
	t.draft.set(c.part, part)
	e := c.event()
	e.Output, e.Error = part.Output, part.ErrorText
	t.draft.emit(Event{Type: EventToolOutput, Call: e})
}

// refuse answers calls that will not be run.
func (t *tools) refuse(calls []*call) {
	for _, c := range calls {
		if c.Open() {
			t.end(c, toolkit.Result{Error: "the turn has reached its limit of tool rounds"}, false)
		}
	}
}

// close answers the calls that are open when the turn ends: with why, or with the reason why their approval is missing.
func (t *tools) close(why string) {
	for _, c := range t.all {
		if !c.Open() {
			continue
		}
		t.asks.drop(c)
		words := why
		if approval, asked := c.Approval(); asked && !approval.Approved() {
			words = approval.Refusal()
		}
		t.end(c, toolkit.Result{Error: words}, true)
	}
}

// discard drops the calls' contents, for a message that is too large.
func (t *tools) discard() {
	for _, c := range t.all {
		c.Discard()
		t.draft.set(c.part, c.Part())
	}
}

// round runs the calls of one step.
type round struct {
	t       *tools
	events  chan toolEvent
	slots   chan struct{}
	running int     // calls without a result
	waiting []*call // those waiting for approval
	client  []*call // those that the client is told when it has answered the one before
}

// toolEvent is what a goroutine that runs a call reports: progress, or the result.
type toolEvent struct {
	call   *call
	chunk  toolkit.Chunk
	result *toolkit.Result
}

// start runs the tool of a call.
func (r *round) start(c *call) {
	t, asked := r.t, c.Call
	t.side.Go(func() {
		r.slots <- struct{}{}
		defer func() { <-r.slots }()
		result := t.router.Call(t.ctx, asked,
			func(chunk toolkit.Chunk) { r.events <- toolEvent{call: c, chunk: chunk} })
		r.events <- toolEvent{call: c, result: &result}
	})
}

// startNext starts the next call of the client.
func (r *round) startNext() {
	if len(r.client) > 0 {
		c := r.client[0]
		r.client = r.client[1:]
		r.start(c)
	}
}

// next waits until a tool reports something or the user has decided.
func (r *round) next() (e toolEvent) {
	var stopped <-chan struct{}
	if len(r.waiting) > 0 {
		stopped = r.t.ctx.Done() // otherwise nobody would end the wait
	}
	select {
	case e = <-r.events:
	case f := <-r.t.asks.news:
		f()
	case <-stopped:
	}
	return e
}

// applyDecisions starts or refuses the calls whose approval is decided.
func (r *round) applyDecisions() {
	t := r.t
	r.waiting = slices.DeleteFunc(r.waiting, func(c *call) bool {
		if t.ctx.Err() != nil {
			t.asks.drop(c)
		}
		switch approval, _ := c.Approval(); approval.Outcome {
		case thread.ApprovalOpen:
			return false
		case thread.ApprovalApproved:
			r.start(c)
		default:
			r.running--
			t.resolve(c, toolkit.Result{Error: approval.Refusal()})
		}
		return true
	})
}
