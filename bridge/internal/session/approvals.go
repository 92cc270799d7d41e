package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// askUser asks for the approval of a call before its tool runs. The answer is
// bound to the call by a nonce, and may come by the data channel or by the question's
// row.
func (t *tools) askUser(run *toolRun) {
	a, _ := run.Approval()
	e := run.event("bridge.tool.approval_required")
	e.Input, e.Nonce = run.message.tools[run.part].Input, a.Nonce
	t.tell(e)
	e.Nonce = ""
	t.watch(e)
	t.do(AwaitApproval{CallID: run.Call.ID, ID: run.ID, ExpiresAt: a.ExpiresAt})
}

// question is what the table of approvals has of a run.
func (t *tools) question(run *toolRun, a toolkit.Approval) *persistence.Approval {
	q := &persistence.Approval{
		ID: run.ID, ToolCallID: run.Call.ID, Nonce: a.Nonce, AskedAt: a.AskedAt, ExpiresAt: a.ExpiresAt,
		Outcome: persistence.ApprovalOutcome(a.Outcome),
	}
	if a.Outcome == toolkit.ApprovalApproved || a.Outcome == toolkit.ApprovalDenied {
		q.AnsweredBy = t.Key.Owner
	}
	return q
}

// approvalSaved takes a question as it is saved: what was decided there holds.
func (t *tools) approvalSaved(a persistence.Approval) {
	run := t.byID[a.ToolCallID]
	if run != nil && run.ID == a.ID && run.Asking() && a.Outcome != persistence.ApprovalOpen {
		t.decided(run, toolkit.Outcome(a.Outcome))
	}
}

// tellClosed tells the thread's watchers, once, that a question is over.
func (t *tools) tellClosed(run *toolRun) {
	a, asked := run.Approval()
	if !asked || run.Asking() || run.closedTold {
		return
	}
	run.closedTold = true
	t.do(Publish{"bridge.tool.approval_closed", closedEvent{run.Call.ID, a.Approved(), a.Reason()}})
}

// askBy is until when the user may answer, zero where nobody is asked.
func (r *toolRun) askBy() time.Time {
	if a, _ := r.Approval(); r.Asking() {
		return a.ExpiresAt
	}
	return time.Time{}
}

// toolDecision is an event of the browser about a tool call.
type toolDecision struct {
	ToolCallID string `json:"tool_call_id"`
	Nonce      string `json:"nonce"`
}

// decide takes the user's answer to askUser.
func (t *tools) decide(ev realtime.Event, approved bool) {
	d, ok := t.readDecision(ev)
	if !ok {
		return
	}
	run := t.byID[d.ToolCallID]
	if run == nil || !run.Answers(d.Nonce) {
		t.refuse(ev.EventID, "approval_not_pending", fmt.Sprintf(
			"The tool call %q does not wait for an approval with this nonce.", clip(d.ToolCallID)), "nonce")
		return
	}
	outcome := toolkit.ApprovalDenied
	if approved {
		outcome = toolkit.ApprovalApproved
	}
	t.decided(run, outcome)
}

// decided takes what came of the question: the tool runs, or the model reads why not.
func (t *tools) decided(run *toolRun, outcome toolkit.Outcome) {
	run.Close(outcome)
	if outcome == toolkit.ApprovalApproved {
		t.update(run)
		t.record(run)
		t.tellClosed(run)
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

// cancel ends a tool because the user says so.
func (t *tools) cancel(ev realtime.Event) {
	d, ok := t.readDecision(ev)
	if !ok {
		return
	}
	run := t.byID[d.ToolCallID]
	if run == nil || run.Done() {
		t.refuse(ev.EventID, "tool_not_running", fmt.Sprintf("The tool call %q does not run.", clip(d.ToolCallID)), "tool_call_id")
		return
	}
	t.cancelRun(run)
}

// cancelRun ends one run. The model hears of it.
func (t *tools) cancelRun(run *toolRun) {
	if !run.Close(toolkit.ApprovalCancelled) {
		t.do(CancelTool{run.Call.ID})
	}
	t.cancelled(run, toolkit.WhyCancelled)
	t.answer(run)
}

// CancelToolName is the tool by which the model ends tools on the user's word. Its
// calls are answered here: nobody else knows what runs.
const CancelToolName = "cancel_running_tools"

// cancelRunning answers a call of CancelToolName.
func (t *tools) cancelRunning(run *toolRun) {
	var names []string
	for _, other := range t.unfinished() {
		if other != run {
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

// clientOutput takes the client's answer to a tool call.
func (t *tools) clientOutput(clientID, callID, output string) {
	run := t.byID[callID]
	if run != nil && run.Entry.Executor == toolkit.ExecutorClient {
		// The client will ask for a response, too. The bridge asks by itself, when
		// all calls are answered.
		t.answers.clientAsks, t.answers.asksTill = true, time.Time{}
	}
	switch {
	case run == nil || run.Entry.Executor != toolkit.ExecutorClient:
		t.refuse(clientID, codeNotAllowed, fmt.Sprintf("There is no open call of a client tool with the call_id %q.", clip(callID)), "item.call_id")
	case run.Done() || run.delivered:
		t.refuse(clientID, codeNotAllowed, fmt.Sprintf("The tool call %q is answered already.", clip(callID)), "item.call_id")
	default:
		if len(output) > clienttool.MaxOutput {
			t.refuse(clientID, "tool_output_too_large", fmt.Sprintf(
				"The output has %d bytes; the limit is %d. The tool call has failed.", len(output), clienttool.MaxOutput), "item.output")
		}
		run.delivered = true
		if run.Asking() {
			run.early = &output
		} else {
			t.do(DeliverTool{callID, output})
		}
	}
	t.answers.letAsk(t.onItsWay())
}

// onItsWay says that a client's answer is still with its tool.
func (t *tools) onItsWay() bool {
	for _, r := range t.open {
		if r.delivered && !r.Done() {
			return true
		}
	}
	return false
}

// codeNotAllowed answers what a browser may not do.
const codeNotAllowed = "event_not_allowed"

// clip makes a client's value fit into a message.
func clip(v string) string {
	if len(v) > 64 {
		return shorten(v, 64) + "…"
	}
	return v
}
