package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// worker is the loop of a call: it owns the state and does what the state wants done.
type worker struct {
	*call
	state       *session.State
	legs        legs
	toolCtx     context.Context //nolint:containedctx // it ends with the loop that owns the worker
	cancelTools context.CancelFunc
	cancels     map[string]context.CancelFunc // of the tools that run
	over        EndReason
	failed      EndReason // the next input
}

func newWorker(ctx context.Context, c *call, s *session.State) *worker {
	w := &worker{call: c, state: s, cancels: make(map[string]context.CancelFunc), legs: legs{
		call: c, ctx: ctx, byGen: map[int]*upLeg{c.first.gen: c.first},
		dials: make(map[int]context.CancelFunc), early: make(map[int][]session.Input),
	}}
	w.toolCtx, w.cancelTools = context.WithCancel(ctx)
	c.startLeg(ctx, c.first)
	w.legs.heard = c.first.gen
	c.first.flow.Open()
	return w
}

// loop owns the state until the call ends.
func (w *worker) loop() EndReason {
	defer w.cancelTools()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.untilDeadline())
		var inputs []session.Input
		select {
		case in := <-w.inbox:
			if w.legs.isEarly(in) {
				continue
			}
			w.browserEnds(in)
			inputs = []session.Input{in}
		case b := <-w.joined:
			inputs = []session.Input{w.join(b)}
		case r := <-w.dialed:
			inputs = w.legs.add(r)
		case <-timer.C:
			inputs = []session.Input{session.Tick{}}
		}
		for _, in := range inputs {
			if reason, over := w.step(in); over {
				return reason
			}
		}
	}
}

// browserEnds stops queueing events for a browser that has closed its connection.
func (w *worker) browserEnds(in session.Input) {
	if s, ok := in.(session.BrowserState); ok && s.State == session.Closed && s.Gen == w.peer.Load().gen {
		w.peer.Load().out.close()
	}
}

func (w *worker) untilDeadline() time.Duration {
	at := w.state.Deadline()
	if at.IsZero() {
		return time.Hour
	}
	return time.Until(at)
}

// step applies one input. A panic in the state ends this call and no other.
func (w *worker) step(in session.Input) (reason EndReason, over bool) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("call broken", "panic", p, "stack", string(debug.Stack()))
			w.abort()
			reason, over = EndInternal, true
		}
	}()
	for in != nil {
		w.performAll(w.state.Reduce(time.Now(), in))
		if end, ok := in.(session.ToolEnd); ok {
			delete(w.cancels, end.CallID)
		}
		w.ends.Store(w.state.Ending())
		w.waiting.Store(w.state.Waiting())
		in = nil
		if w.failed != session.EndNone {
			in, w.failed = session.Stop{Reason: w.failed}, session.EndNone
		}
	}
	return w.over, w.over != session.EndNone
}

// abort saves what it can of a call whose state is broken.
func (w *worker) abort() {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("broken call not closed", "panic", p)
		}
	}()
	w.openGate(false)
	w.performAll(w.state.Abort(time.Now()))
}

// performAll does what one input has led to. What it changes in the thread is
// saved together: a tool call is never shown without its record.
func (w *worker) performAll(effects []session.Effect) {
	var changes []session.Change
	for _, e := range effects {
		if write, ok := e.(session.Write); ok {
			changes = append(changes, write.Change)
			continue
		}
		w.perform(e)
	}
	switch {
	case len(changes) == 0:
	case w.state.Ending():
		w.writer.pushLast(changes...)
	default:
		w.check(w.writer.push(changes...), EndStorageFailed)
	}
}

func (w *worker) perform(e session.Effect) {
	switch e := e.(type) {
	case session.ToUpstream:
		w.toUpstream(e.Gen, e.Data)
	case session.Replay:
		if l := w.legs.of(e.Gen); l != nil {
			w.toUpstream(e.Gen, l.leg.Opening()...)
		}
	case session.Append:
		if l := w.legs.of(e.Gen); l != nil {
			w.toUpstream(e.Gen, l.leg.Append(e.Messages)...)
		}
	case session.Dial:
		w.legs.dial(e)
	case session.Switch:
		w.legs.switchTo(e.Gen)
	case session.HangUp:
		w.legs.end(e)
	case session.ToBrowser:
		w.check(w.peer.Load().out.push(e.Data, e.Draft), EndBrowserStalled)
	case session.Gate:
		w.openGate(e.Open)
	case session.Publish:
		w.publish(e)
	case session.Answer:
		e.To <- e.Yes
	case session.Count:
		w.onCount(e.What)
	case session.Log:
		w.log.Log(w.toolCtx, e.Level, e.Message, e.Attrs...) //nolint:sloglint // the state's messages are constants
	case session.Finish:
		w.over = e.Reason
	default:
		w.performTool(e)
	}
}

func (w *worker) performTool(e session.Effect) {
	switch e := e.(type) {
	case session.ExpectTool:
		if err := w.client.Expect(e.CallID); err != nil {
			w.log.Warn("client tool not opened", "tool_call_id", e.CallID, "error", err)
		}
	case session.AwaitApproval:
		w.awaitApproval(e)
	case session.StartTool:
		w.startTool(e.Call)
	case session.DeliverTool:
		if err := w.client.Deliver(e.CallID, e.Output); err != nil {
			w.log.Info("client's tool output refused", "tool_call_id", e.CallID, "error", err)
		}
	case session.CancelTool:
		if cancel := w.cancels[e.CallID]; cancel != nil {
			cancel()
		}
	case session.CancelTools:
		w.cancelTools()
	default:
		panic(fmt.Sprintf("bridge: unknown effect %T", e))
	}
}

func (w *worker) toUpstream(gen int, events ...[]byte) {
	l := w.legs.of(gen)
	for _, data := range events {
		if l != nil && !l.out.push(data, false) {
			w.log.Log(w.toolCtx, slog.LevelWarn, "upstream takes no more events", "generation", gen)
			w.check(false, EndUpstreamLost)
			return
		}
	}
}

func (w *worker) publish(e session.Publish) {
	event := persistence.Event{Type: e.Kind, Data: toolkit.Encode(e.Data)}
	if e.Kind == session.CallEnded {
		w.farewell = &event
		return
	}
	w.thread.Publish(w.toolCtx, w.key, event)
	switch e.Kind {
	case session.TurnStarted:
		w.talking.Store(true)
	case session.TurnFinished:
		w.talking.Store(false)
		w.onTurn(w.key)
	}
}

// check ends the call when a queue is full.
func (w *worker) check(ok bool, reason EndReason) {
	if !ok && w.failed == session.EndNone {
		w.failed = reason
	}
}

// openGate lets the caller's audio through, or ends all audio.
func (w *worker) openGate(open bool) {
	w.legs.silent = !open
	if open {
		w.fromUser.Open()
		w.legs.open()
		return
	}
	w.fromUser.Shut()
	w.legs.shut()
}

// startTool runs a tool beside the loop.
func (w *worker) startTool(tc toolkit.Call) {
	c := w.call
	ctx, cancel := context.WithCancel(w.toolCtx)
	w.cancels[tc.ID] = cancel
	c.tools.Go(func() {
		defer cancel()
		result := toolkit.Drain(c.router.Call(ctx, tc), func(chunk toolkit.Chunk) {
			if chunk.MessageID != "" {
				c.post(session.ToolProgress{CallID: tc.ID, Chunk: chunk}) // a fact
				return
			}
			c.offer(session.ToolProgress{CallID: tc.ID, Chunk: chunk})
		})
		c.client.Forget(tc.ID)
		c.post(session.ToolEnd{CallID: tc.ID, Result: result, Masked: result.Masked()})
	})
}

// cancelDefinition tells the model of the tool whose calls the state answers.
var cancelDefinition = toolkit.Definition{
	Name:        session.CancelToolName,
	Description: "Cancel the tools that are still running, when the user says so (stop that, never mind).",
	Parameters:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
}

// cancelEntry is that tool in a call's registry.
type cancelEntry struct{}

func (cancelEntry) Definition() toolkit.Definition { return cancelDefinition }

func (cancelEntry) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		yield(toolkit.Chunk{Result: &toolkit.Result{Error: "This tool works in a voice call only."}}, nil)
	}
}
