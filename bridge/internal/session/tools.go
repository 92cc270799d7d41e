package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// called starts the tool of a completed function call, once.
func (t *tools) called(it *item, raw *realtime.Item, r *response) {
	if raw.CallID == "" || t.byID[raw.CallID] != nil {
		return
	}
	if r == nil {
		r = t.answers.of("")
	}
	if r != nil && r.tools >= toolkit.MaxCalls {
		t.tooMany(raw, r)
		return
	}
	run := &toolRun{response: r, gen: it.gen, Invocation: t.registry.Invoke("", toolkit.Call{
		ID: raw.CallID, Name: raw.Name, Arguments: raw.Arguments,
		Owner: t.Key.Owner, ThreadID: t.Key.Thread, CallID: t.CallID, Secrets: slices.Clone(t.transcript.secrets),
	}, 0, t.now)}
	run.side, _ = t.client.declared.of(raw.Name)
	t.byID[raw.CallID] = run
	t.open = append(t.open, run)
	if r != nil {
		if r.tools++; r.tools == 1 {
			t.answers.rounds++
		}
		r.open++
	}
	t.show(it, run)
	run.ID = t.newID()
	asks := t.phase < draining && raw.Name != CancelToolName && run.NeedsApproval(t.Approve)
	if asks {
		run.Ask(t.newID(), t.now)
	}
	t.record(run)
	switch {
	case t.phase >= draining: // it came too late to run
		t.cancelled(run, toolkit.WhyCallEnded)
	case raw.Name == CancelToolName:
		t.cancelRunning(run)
	case asks:
		t.announce(run)
		t.do(AwaitApproval{CallID: run.Call.ID, ID: run.ID, ExpiresAt: run.askBy()})
	default:
		t.start(run)
	}
	if i := slices.IndexFunc(t.early, func(e clientAnswer) bool { return e.callID == raw.CallID }); i >= 0 {
		e := t.early[i]
		t.early = slices.Delete(t.early, i, i+1)
		t.clientOutput(e)
	}
}

// tooMany takes a call beyond those that one response may start: it is not run, and the response ends.
func (t *tools) tooMany(raw *realtime.Item, r *response) {
	if r.excess {
		return
	}
	r.excess = true
	t.log(slog.LevelWarn, "too many tool calls in one response", "response", r.id, "limit", toolkit.MaxCalls,
		"tool", clip(raw.Name))
	if t.answers.active == r.id {
		t.up.cancel(r.id)
	}
}

// show puts the call into the last message of its response, or into one of its own.
func (t *tools) show(it *item, run *toolRun) {
	m := it.message
	if m == nil && run.response != nil && len(run.response.messages) > 0 {
		m = run.response.messages[len(run.response.messages)-1]
		it.message = m
	}
	if m == nil {
		m = t.answers.message(it, run.response)
		m.meta.Status = thread.StatusCompleted
	}
	run.message, run.part = m, len(m.tools)
	m.tools = append(m.tools, thread.Part{})
	t.update(run)
}

// progressed takes a tool's progress.
func (t *tools) progressed(callID string, c toolkit.Chunk) {
	if c.MessageID != "" {
		t.transcript.anchor(c.MessageID)
	}
	run := t.byID[callID]
	if run == nil || run.Done() {
		return
	}
	if c.Inner != nil && t.up.can.Duplex {
		t.stepped(run, c.Inner)
	}
	e := run.event("bridge.tool.progress")
	e.Message, e.Percent = c.Message, &c.Percent
	e.Data = c.Data
	t.broadcast(encode(e), true)
	t.watch(e)
}

// stepped takes a call that a tool makes of another. GPT-Live has no tools: those of the turn that works for it are the
// call's. Its clients are told of them as of every tool, and are asked to run theirs; the turn saves them.
func (t *tools) stepped(within *toolRun, in *toolkit.Inner) {
	run := t.byID[in.Call.ID]
	if run == nil {
		if t.phase >= draining {
			return
		}
		call := in.Call // in is the tool's
		call.Secrets = within.Call.Secrets
		run = &toolRun{within: within, gen: t.up.gen, Invocation: t.registry.Invoke("", call, 0, t.now)}
		run.Entry.Executor, run.Entry.Server = in.Executor, in.Server
		run.side, _ = t.client.declared.of(in.Call.Name)
		t.byID[in.Call.ID] = run
		t.open = append(t.open, run)
	}
	isOwn := t.owns(in.Call.Name)
	isClients := in.Executor == toolkit.ExecutorClient && !isOwn
	switch {
	case run.within != within || run.Done():
	case in.Result != nil:
		run.FinishMasked(*in.Result, *in.Result, t.now)
		t.close(run)
		if isClients && run.gen == t.up.gen && !t.up.gone { // its item is acknowledged
			t.sendOutput(run, cmp.Or(run.itemID, t.nextItemID()))
		}
		if isOwn && in.Call.Name == EndCallName && !in.Result.Failed() {
			t.isLeaving, t.leaving = true, leaving{run: within, by: t.now.Add(lostAfter), within: true}
		}
	case in.Nonce != "":
		run.Ask(in.Nonce, t.now)
		t.announce(run)
	case in.Asks:
	default:
		t.announce(run)
		if isClients && !t.joined(run.side) {
			t.fail(run)
		} else if isClients {
			t.up.send(realtime.ItemCreate(t.up.eventID(sentEvent{}), realtime.Item{
				Type: realtime.ItemFunctionCall, CallID: in.Call.ID, Name: in.Call.Name, Arguments: in.Call.Arguments,
			}, ""))
		}
	}
}

// ended records the result of a tool, and answers the model.
func (t *tools) ended(in ToolEnd) {
	if run := t.byID[in.CallID]; run != nil && run.FinishMasked(in.Result, in.Masked, t.now) {
		t.close(run)
		run.images = in.Images
		if t.hasLeft(run) {
			return
		}
		t.answer(run)
	}
}

// end closes running tools when the call ends.
func (t *tools) end() {
	for _, run := range t.unfinished() {
		t.do(CancelTool{CallID: run.Call.ID, Cause: toolkit.ErrCallEnded})
		t.cancelled(run, toolkit.WhyCallEnded)
	}
}

// onTime handles the deadlines of tool calls. heard is when the voice was last heard.
func (t *tools) onTime(heard time.Time) {
	for _, run := range t.open {
		if t.due(run.askBy()) {
			t.decided(run, thread.ApprovalTimeout)
		}
	}
	t.open = t.unfinished()
	switch {
	case !slices.ContainsFunc(t.open, func(r *toolRun) bool { return !r.Asking() }):
		t.waitsSince, t.fillerAt = time.Time{}, time.Time{}
	case t.due(t.fillerAt) && !t.answers.busy():
		t.fillerAt = time.Time{}
		if !heard.After(t.waitsSince) && t.listening() && !t.away && t.up.can.ResponseSettings {
			t.answers.sayFiller()
		}
	}
}

func (t *tools) deadline() time.Time {
	var at time.Time
	for _, run := range t.open {
		if !run.Done() {
			at = until(at, run.askBy())
		}
	}
	if !t.answers.busy() {
		at = until(at, t.fillerAt)
	}
	if l := t.leaving; l.run != nil && !l.started {
		at = until(at, cmp.Or(l.at, until(l.by, t.answers.saidBy)))
	}
	return at
}

// cancel ends a tool because the user says so.
func (t *tools) cancel(ev realtime.Event) {
	d, ok := t.readDecision(ev)
	if !ok {
		return
	}
	run := t.byID[d.ToolCallID]
	if run == nil || run.Done() || t.isOut(run) {
		t.refuse(ev.EventID, "tool_not_running", fmt.Sprintf("The tool call %q is not running.", clip(d.ToolCallID)),
			"tool_call_id")
		return
	}
	if run.within != nil {
		run = run.within
	}
	t.cancelRun(run)
}

// cancelRun ends one run, and tells the model.
func (t *tools) cancelRun(run *toolRun) {
	if t.isOut(run) {
		return
	}
	if !run.Close(thread.ApprovalCancelled) {
		t.do(CancelTool{CallID: run.Call.ID})
	}
	t.cancelled(run, toolkit.WhyCancelled)
	t.answer(run)
}

// cancelRunning carries out a call of CancelToolName.
func (t *tools) cancelRunning(run *toolRun) {
	var names []string
	for _, other := range t.unfinished() {
		if other != run && other.within == nil {
			names = append(names, other.Call.Name)
			t.cancelRun(other)
		}
	}
	summary := "Nothing was running."
	if len(names) > 0 {
		summary = "Cancelled: " + strings.Join(names, ", ") + "."
	}
	run.Finish(toolkit.Result{Output: encode(map[string]any{"summary": summary, "cancelled": len(names)})}, t.now)
	t.close(run)
	t.answer(run)
}

// isComing reports whether the present session has begun a call that is not complete.
func (t *tools) isComing(callID string) bool {
	for _, it := range t.transcript.items {
		if it.gen == t.up.gen && it.raw.Type == realtime.ItemFunctionCall && it.raw.CallID == callID {
			return true
		}
	}
	return false
}

// refuseEarly refuses the answers to calls that will not be complete any more.
func (t *tools) refuseEarly() {
	for _, e := range t.early {
		t.refuseOutput(e.clientID, e.callID)
	}
	t.early = nil
}

func (t *tools) refuseOutput(clientID, callID string) {
	t.refuse(clientID, codeNotAllowed,
		fmt.Sprintf("There is no open call of a client tool with the call_id %q.", clip(callID)), "item.call_id")
}

// clientOutput takes the client's answer to a tool call.
func (t *tools) clientOutput(a clientAnswer) {
	clientID, callID := a.clientID, a.callID
	output := a.output
	run := t.byID[callID]
	side, _ := asked(clientID)
	client := t.told(side)
	isEarly := run == nil && callID != "" && len(t.early) < maxEarly && len(output) <= clienttool.MaxOutput &&
		t.isComing(callID)
	if run != nil || isEarly {
		// The client will ask for a response, too. The bridge asks by itself, once all calls are
		// answered.
		client.mayAsk, client.repliedAt = true, time.Time{}
	}
	switch {
	case isEarly:
		t.early = append(t.early, a)
	case run == nil:
		t.refuseOutput(clientID, callID)
	// another answers it: no reason to alarm the client
	case run.Entry.Executor != toolkit.ExecutorClient || run.side != side:
		run.delivered = run.delivered || run.Entry.Executor != toolkit.ExecutorClient
		client.mayAsk = !run.Done() || !t.answers.answeredAll()
	case run.Done() || run.delivered:
		t.refuse(clientID, codeNotAllowed, fmt.Sprintf("The tool call %q has already been answered.", clip(callID)),
			"item.call_id")
	default:
		if len(output) > clienttool.MaxOutput {
			t.refuse(clientID, "tool_output_too_large", fmt.Sprintf(
				"The output has %d bytes; the limit is %d. The tool call has failed.", len(output),
				clienttool.MaxOutput), "item.output")
		}
		run.delivered = true
		if t.transcript.isFree(a.itemID) {
			run.itemID = a.itemID
			t.transcript.item(a.itemID) // it is taken now
		}
		if a.server {
			t.answers.serverAsksBy = t.now.Add(serverCreateWait)
		}
		if run.Asking() {
			run.early = &output
		} else {
			t.do(DeliverTool{CallID: callID, Output: output})
		}
	}
	t.settle()
}

// settle notes whether the answer is there that a client's response.create is still to ask for.
func (t *tools) settle() {
	if _, onItsWay := t.onItsWay(); onItsWay || !t.answers.answeredAll() {
		return
	}
	for _, c := range t.clients {
		if c.repliedAt.IsZero() {
			c.repliedAt = t.now
		}
	}
}

// handOver takes a call that an application's server had before this call, or its output: the model is told of both,
// and nothing runs.
func (t *tools) handOver(ev realtime.Event, it clientItem, in BrowserEvent) bool {
	_, is := t.handed[it.CallID]
	if it.Type == realtime.ItemFunctionCall && it.CallID != "" && !is && t.byID[it.CallID] == nil {
		t.handed[it.CallID] = in.Side
	} else if it.Type != realtime.ItemFunctionCallOutput || !is {
		return false
	}
	if item, err := realtime.DecodeItem(ev.Item); err == nil && t.up.can.CallItems && len(ev.Item) < t.up.limit/2 {
		t.up.send(realtime.ItemCreate(t.up.eventID(sentEvent{clientID: ev.EventID, forClient: true}), item, ""))
		return true
	}
	t.refuse(ev.EventID, "not_supported_by_upstream",
		"The upstream does not take function calls as items, or this one is too long.", "item")
	return true
}

// asksClient reports whether a tool of that client waits for its answer.
func (t *tools) asksClient(side int) bool {
	return slices.ContainsFunc(t.open, func(r *toolRun) bool {
		return r.Entry.Executor == toolkit.ExecutorClient && r.side == side && !r.delivered && !r.Asking() && !r.Done()
	})
}

// onItsWay reports whether a client has answered a tool that has not ended yet, and of which response.
func (t *tools) onItsWay() (batch *response, yes bool) {
	if i := slices.IndexFunc(t.open, func(r *toolRun) bool { return r.delivered && !r.Done() }); i >= 0 {
		return t.open[i].response, true
	}
	return t.answers.of(""), len(t.early) > 0
}

// approvalDecided takes a decision that was made outside the call.
func (t *tools) approvalDecided(a thread.Approval) {
	if run := t.byID[a.ToolCallID]; run != nil && run.ID == a.ID && run.Asking() {
		t.decided(run, a.Outcome)
	}
}

// toolDecision holds the fields of a browser's event about a tool call.
type toolDecision struct {
	ToolCallID string `json:"tool_call_id"`
	Nonce      string `json:"nonce"`
}

// decide takes the user's decision.
func (t *tools) decide(ev realtime.Event, approved bool) {
	d, ok := t.readDecision(ev)
	if !ok {
		return
	}
	run := t.byID[d.ToolCallID]
	if run == nil || !run.Answers(d.Nonce) {
		t.refuse(ev.EventID, "approval_not_pending", fmt.Sprintf(
			"The tool call %q is not waiting for an approval with this nonce.", clip(d.ToolCallID)), "nonce")
		return
	}
	outcome := thread.ApprovalDenied
	if approved {
		outcome = thread.ApprovalApproved
	}
	t.decided(run, outcome)
}

// decided acts on the outcome of the approval: the tool runs, or the model reads why not.
func (t *tools) decided(run *toolRun, outcome thread.ApprovalOutcome) {
	if a, _ := run.Approval(); run.within != nil {
		run.Close(outcome)
		if outcome != thread.ApprovalTimeout { // whoever asks sees to that
			t.do(AnswerApproval{CallID: run.Call.ID, Nonce: a.Nonce, Approved: outcome == thread.ApprovalApproved})
		}
		return
	}
	run.Close(outcome)
	if outcome == thread.ApprovalApproved {
		t.update(run)
		t.record(run)
		t.publishClosed(run)
		t.start(run)
		return
	}
	run.Refuse(t.now)
	t.close(run)
	t.answer(run)
}

func (t *tools) readDecision(ev realtime.Event) (toolDecision, bool) {
	var d toolDecision
	if json.Unmarshal(ev.Raw, &d) != nil || d.ToolCallID == "" {
		t.refuse(ev.EventID, "invalid_value", "tool_call_id and nonce must be strings.", "tool_call_id")
		return d, false
	}
	return d, true
}

// hides reports whether an item is a function call that the browser (0) or a sideband does not have to answer, or the
// output of one.
func (t *tools) hides(raw *realtime.Item, side int) bool {
	switch raw.Type {
	case realtime.ItemFunctionCall, realtime.ItemFunctionCallOutput:
	default:
		return false
	}
	if of, ok := t.handed[raw.CallID]; ok {
		return of != side
	}
	if run := t.byID[raw.CallID]; run != nil {
		return run.Entry.Executor != toolkit.ExecutorClient || run.side != side
	}
	return !t.client.declares(side, raw.Name)
}
