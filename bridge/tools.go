package bridge

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"sync"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// awaitAgain is the pause after an answer could not be awaited, because the database is away.
const awaitAgain = time.Second

// approvals are the saved approvals; *persistence.Store implements it.
type approvals interface {
	AwaitAnswer(ctx context.Context, key thread.Key, id string) (thread.Approval, error)
	AnswerApproval(ctx context.Context, key thread.Key, toolCallID, nonce, by string, approved bool) error
}

// toolRunner runs a call's tools in the background. Only the call's loop calls its methods. Results are posted to the
// loop; progress is offered.
type toolRunner struct {
	key         thread.Key
	log         *slog.Logger
	post, offer func(session.Input)
	registry    *toolkit.Registry
	router      *toolkit.Router
	client      *clienttool.Toolkit
	approvals   approvals // nil for a call whose thread is elsewhere
	images      *images

	ctx     context.Context //nolint:containedctx // of the running tools
	endAll  context.CancelCauseFunc
	cancels map[string]context.CancelCauseFunc // of each running tool, by the call's id
	running sync.WaitGroup
}

// begin lets tools run until ctx ends.
func (r *toolRunner) begin(ctx context.Context) {
	r.cancels = make(map[string]context.CancelCauseFunc)
	r.ctx, r.endAll = context.WithCancelCause(ctx)
}

// perform carries out an effect about tools. It returns false for other effects.
func (r *toolRunner) perform(e session.Effect) bool {
	switch e := e.(type) {
	case session.ReplaceTools:
		if err := r.registry.Replace(e.Remove, e.Add); err != nil {
			r.log.Error("tools not replaced", "error", err)
		}
	case session.DeclareTools:
		if err := r.client.Declare(e.Tools); err != nil {
			r.log.Error("client tools not declared", "error", err)
		}
	case session.AwaitApproval:
		r.awaitApproval(e)
	case session.AnswerApproval:
		r.answerApproval(e)
	case session.StartTool:
		if e.Lends {
			e.Call.Lent = r.client.Tools()
			for _, name := range []string{session.EndCallName, session.TransferName} {
				if own, has := r.registry.Lookup(name); has && own.Executor == toolkit.ExecutorApp {
					e.Call.Lent = append(e.Call.Lent, own.Tool)
				}
			}
		}
		r.start(e.Call)
	case session.DeliverTool:
		if err := r.client.Deliver(e.CallID, e.Output); err != nil {
			r.log.Info("client's tool output refused", "tool_call_id", e.CallID, "error", err)
		}
	case session.CancelTool:
		if cancel := r.cancels[e.CallID]; cancel != nil {
			cancel(e.Cause)
		}
	default:
		return false
	}
	return true
}

// start runs a tool.
func (r *toolRunner) start(tc toolkit.Call) {
	r.expect(tc)
	ctx, cancel := context.WithCancelCause(r.ctx)
	r.cancels[tc.ID] = cancel
	r.running.Go(func() {
		defer cancel(nil)
		result := r.router.Call(ctx, tc, func(chunk toolkit.Chunk) {
			send := r.offer
			if chunk.MessageID != "" || chunk.Inner != nil {
				send = r.post // a fact
			}
			if in := chunk.Inner; in != nil && in.Executor == toolkit.ExecutorClient && in.Result == nil {
				r.expect(in.Call)
			}
			send(session.ToolProgress{CallID: tc.ID, Chunk: chunk})
		})
		r.client.Forget(tc.ID)
		r.post(session.ToolEnd{
			CallID: tc.ID, Result: result, Masked: result.Masked(tc.Secrets...), Images: r.images.ofResult(ctx, result.Output),
		})
	})
}

// expect accepts a client's answer to a call from now on, if one of its tools is called.
func (r *toolRunner) expect(tc toolkit.Call) {
	if !r.client.Declared(tc.Name) {
		return
	}
	if err := r.client.Expect(tc.ID); err != nil {
		r.log.Warn("client tool not opened", "tool_call_id", tc.ID, "error", err)
	}
}

// ended forgets a call that has ended.
func (r *toolRunner) ended(callID string) { delete(r.cancels, callID) }

// awaitApproval reports how an approval was decided outside the call, unless it expires before.
func (r *toolRunner) awaitApproval(e session.AwaitApproval) {
	if r.approvals == nil {
		return
	}
	ctx := r.ctx
	r.running.Go(func() {
		ctx, cancel := context.WithDeadline(ctx, e.ExpiresAt)
		defer cancel()
		for ctx.Err() == nil {
			a, err := r.approvals.AwaitAnswer(ctx, r.key, e.ID)
			if err == nil {
				r.post(session.ApprovalDecided{Approval: a})
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(awaitAgain):
			}
		}
	})
}

// answerApproval saves a decision, which whoever has asked for it awaits.
func (r *toolRunner) answerApproval(e session.AnswerApproval) {
	if r.approvals == nil {
		return
	}
	ctx := r.ctx
	r.running.Go(func() {
		if err := r.approvals.AnswerApproval(ctx, r.key, e.CallID, e.Nonce, r.key.Owner, e.Approved); err != nil {
			r.log.Warn("decision not saved", "tool_call_id", e.CallID, "error", err)
		}
	})
}

// ownTool is a tool of calls. [session.State] answers its calls by itself, or takes note of its result.
type ownTool struct {
	definition toolkit.Definition
	result     toolkit.Result
}

func (t ownTool) Definition() toolkit.Definition { return t.definition }

func (t ownTool) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) { yield(toolkit.Chunk{Result: &t.result}, nil) }
}

// checked returns the entry of a tool, which calls take as it was checked.
func (t ownTool) checked() []toolkit.Entry { return checked(t) }

func checked(t toolkit.Tool) []toolkit.Entry {
	r := toolkit.NewRegistry()
	if err := r.Add(toolkit.Entry{Tool: t, Executor: toolkit.ExecutorApp}); err != nil {
		panic(err) // of a constant
	}
	return r.Entries()
}

var cancelTool = sync.OnceValue(ownTool{
	toolkit.Definition{
		Name:        session.CancelToolName,
		Description: "Cancel the tools that are still running, when the user says so (stop that, never mind).",
		Parameters:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	},
	toolkit.Result{Error: "This tool works in a voice call only."},
}.checked)

var endCallTool = sync.OnceValue(ownTool{
	toolkit.Definition{
		Name: session.EndCallName,
		Description: "End this call, when the user says goodbye or nothing is left to do. Say goodbye in the same answer, " +
			"before you call this: it is heard to its end, and nothing can be said after it.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string",` +
			`"description":"Why the call ends, in a few words; it is saved, not said"}},"required":["reason"],` +
			`"additionalProperties":false}`),
	},
	toolkit.Result{Output: json.RawMessage(`{"ended":true}`)},
}.checked)
