package session

import (
	"encoding/json"
	"fmt"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// askUser asks for approval before a call's tool runs. The decision is bound to the call by a
// nonce, and comes through the data channel or the approval's row.
func (t *tools) askUser(run *toolRun) {
	a, _ := run.Approval()
	e := run.event("bridge.tool.approval_required")
	e.Input, e.Nonce, e.ExpiresAt = run.message.tools[run.part].Input, a.Nonce, &a.ExpiresAt
	t.tell(&e)
	t.do(AwaitApproval{CallID: run.Call.ID, ID: run.ID, ExpiresAt: a.ExpiresAt})
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
