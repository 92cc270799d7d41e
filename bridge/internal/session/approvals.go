package session

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// approvalTimeout is how long the user may think about a tool call.
const approvalTimeout = time.Minute

// askUser asks for the approval of a call before its tool runs. The answer is
// bound to the call by a nonce that only this browser has.
func (t *tools) askUser(run *toolRun) {
	run.nonce, run.askBy = t.NewID(), t.now.Add(approvalTimeout)
	e := run.event("bridge.tool.approval_required")
	e.Input, e.Nonce = run.message.tools[run.part].Input, run.nonce
	t.tell(e)
	e.Nonce = ""
	t.watch(e)
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
	if run == nil || !run.waits() || subtle.ConstantTimeCompare([]byte(run.nonce), []byte(d.Nonce)) != 1 {
		t.refuse(ev.EventID, "approval_not_pending", fmt.Sprintf(
			"The tool call %q does not wait for an approval with this nonce.", clip(d.ToolCallID)), "nonce")
		return
	}
	t.decided(run, approved, "")
	if approved {
		t.start(run)
		return
	}
	t.fail(run, "The user refused this tool call. Do not try it again unless the user asks for it.")
}

func (t *tools) readDecision(ev realtime.Event) (toolDecision, bool) {
	var d toolDecision
	if json.Unmarshal(ev.Raw, &d) != nil || d.ToolCallID == "" {
		t.refuse(ev.EventID, "invalid_value", "tool_call_id and nonce must be strings.", "tool_call_id")
		return d, false
	}
	return d, true
}

// approval is the user's decision about a tool call, in the form of the AI SDK's
// tool parts (v6, ToolUIPart.approval).
type approval struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	Reason   string `json:"reason,omitempty"`
}

// decided saves the decision with the call. The AI SDK takes an approval only with
// a call that was allowed and is finished, so until then, and of a call that was
// refused, it stands in the part's metadata.
func (t *tools) decided(run *toolRun, approved bool, reason string) {
	run.approval = &approval{run.nonce, approved, reason}
	run.nonce, run.askBy = "", time.Time{}
	run.message.tools[run.part].Raw = encode(map[string]any{
		"callProviderMetadata": map[string]any{"voicebridge": map[string]any{"approval": run.approval}},
	})
	t.script.write(run.message)
}

// fail answers a call whose tool does not run.
func (t *tools) fail(run *toolRun, words string) {
	t.close(run, persistence.ToolCallFailed, toolkit.Result{Error: words})
	t.answer(run)
}

// cancel ends a tool because the user says so.
func (t *tools) cancel(ev realtime.Event) {
	d, ok := t.readDecision(ev)
	if !ok {
		return
	}
	run := t.byID[d.ToolCallID]
	if run == nil || run.done {
		t.refuse(ev.EventID, "tool_not_running", fmt.Sprintf("The tool call %q does not run.", clip(d.ToolCallID)), "tool_call_id")
		return
	}
	t.cancelRun(run)
}

// cancelRun ends one run. The model hears of it.
func (t *tools) cancelRun(run *toolRun) {
	if run.waits() {
		t.decided(run, false, "cancelled")
	} else {
		t.do(CancelTool{run.call.ID})
	}
	t.close(run, persistence.ToolCallCancelled, toolkit.Result{Error: "The user cancelled this tool call."})
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
			names = append(names, other.call.Name)
			t.cancelRun(other)
		}
	}
	summary := "Nothing was running."
	if len(names) > 0 {
		summary = "Cancelled: " + strings.Join(names, ", ") + "."
	}
	t.close(run, persistence.ToolCallDone, toolkit.Result{Output: encode(map[string]any{"summary": summary, "cancelled": len(names)})})
	t.answer(run)
}

// clientOutput takes the client's answer to a tool call.
func (t *tools) clientOutput(clientID, callID, output string) {
	run := t.byID[callID]
	if run != nil && run.entry.Executor == toolkit.ExecutorClient {
		// The client will ask for a response, too. The bridge asks by itself, when
		// all calls are answered.
		t.answers.clientAsks, t.answers.asksTill = true, time.Time{}
	}
	switch {
	case run == nil || run.entry.Executor != toolkit.ExecutorClient:
		t.refuse(clientID, codeNotAllowed, fmt.Sprintf("There is no open call of a client tool with the call_id %q.", clip(callID)), "item.call_id")
	case run.done || run.delivered:
		t.refuse(clientID, codeNotAllowed, fmt.Sprintf("The tool call %q is answered already.", clip(callID)), "item.call_id")
	default:
		if len(output) > clienttool.MaxOutput {
			t.refuse(clientID, "tool_output_too_large", fmt.Sprintf(
				"The output has %d bytes; the limit is %d. The tool call has failed.", len(output), clienttool.MaxOutput), "item.output")
		}
		run.delivered = true
		if run.waits() {
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
		if r.delivered && !r.done {
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
