package bridge

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"

	"context"
)

// approvalTimeout is how long the user may think about a tool call.
const approvalTimeout = time.Minute

// askUser asks for the approval of a call before its tool runs. The answer is
// bound to the call by a nonce that only this browser has.
func (s *state) askUser(run *toolRun) {
	run.nonce, run.askBy = s.newID(), s.now.Add(approvalTimeout)
	e := s.toolEvent("bridge.tool.approval_required", run)
	e.Input, e.Nonce = run.message.tools[run.part].Input, run.nonce
	s.tell(e)
	e.Nonce = ""
	s.watch(e)
}

// toolDecision is an event of the browser about a tool call.
type toolDecision struct {
	ToolCallID string `json:"tool_call_id"`
	Nonce      string `json:"nonce"`
}

// decide takes the user's answer to askUser.
func (s *state) decide(ev realtime.Event, approved bool) {
	d, ok := s.readDecision(ev)
	if !ok {
		return
	}
	run := s.tools[d.ToolCallID]
	if run == nil || !run.waits() || subtle.ConstantTimeCompare([]byte(run.nonce), []byte(d.Nonce)) != 1 {
		s.refuse(ev.EventID, "approval_not_pending", fmt.Sprintf(
			"No approval with this nonce is waited for by the tool call %q.", clip(d.ToolCallID)), "nonce")
		return
	}
	s.answered(run, approved, "")
	if approved {
		s.startTool(run)
		return
	}
	s.failTool(run, "The user refused this tool call. Do not try it again unless the user asks for it.")
}

func (s *state) readDecision(ev realtime.Event) (toolDecision, bool) {
	var d toolDecision
	if json.Unmarshal(ev.Raw, &d) != nil || d.ToolCallID == "" {
		s.refuse(ev.EventID, "invalid_value", "tool_call_id and nonce must be strings.", "tool_call_id")
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

// answered saves the decision with the call. The AI SDK takes an approval only with
// a call that was allowed and is finished, so until then, and of a call that was
// refused, it stands in the part's metadata.
func (s *state) answered(run *toolRun, approved bool, reason string) {
	run.approval = &approval{run.nonce, approved, reason}
	run.nonce, run.askBy = "", time.Time{}
	run.message.tools[run.part].Raw = encode(map[string]any{
		"callProviderMetadata": map[string]any{"voicebridge": map[string]any{"approval": run.approval}},
	})
	s.write(run.message)
}

// failTool answers a call whose tool does not run.
func (s *state) failTool(run *toolRun, words string) {
	result := toolkit.Result{Error: words}
	s.closeTool(run, persistence.ToolCallFailed, result)
	s.answerCall(run, result.ForModel())
}

// cancel ends a tool because the user says so.
func (s *state) cancel(ev realtime.Event) {
	d, ok := s.readDecision(ev)
	if !ok {
		return
	}
	run := s.tools[d.ToolCallID]
	if run == nil || run.done {
		s.refuse(ev.EventID, "tool_not_running", fmt.Sprintf("The tool call %q does not run.", clip(d.ToolCallID)), "tool_call_id")
		return
	}
	s.cancelRun(run)
}

// cancelRun ends one run. The model hears of it.
func (s *state) cancelRun(run *toolRun) {
	if run.waits() {
		s.answered(run, false, "cancelled")
	} else {
		s.do(cancelTool{run.call.ID})
	}
	result := toolkit.Result{Error: "The user cancelled this tool call."}
	s.closeTool(run, persistence.ToolCallCancelled, result)
	s.answerCall(run, result.ForModel())
}

// onTools takes the deadlines of tool calls.
func (s *state) onTools() {
	for _, run := range s.open {
		if run.waits() && s.due(run.askBy) {
			s.answered(run, false, "timeout")
			s.failTool(run, "The user was asked to approve this tool call and did not answer in time.")
		}
		if s.due(run.fillAt) && !run.done {
			s.fill(run)
		}
	}
	s.open = slices.DeleteFunc(s.open, func(r *toolRun) bool { return r.done })
}

func (s *state) toolDeadline() time.Time {
	var at time.Time
	for _, run := range s.open {
		if !run.done {
			at = until(at, run.askBy)
			at = until(at, run.fillAt)
		}
	}
	return at
}

// fill has the voice say that a tool still runs, if nobody speaks.
func (s *state) fill(run *toolRun) {
	run.fillAt = time.Time{}
	if s.turns.busy() || s.spoken.playing != "" {
		return
	}
	id := s.nextEventID(sentEvent{kind: sentCreate})
	s.turns.create = &creation{eventID: id, by: s.now.Add(createTimeout), filler: true}
	s.note(slog.LevelDebug, "tool takes long", "tool_call_id", run.call.ID)
	s.do(toUpstream{encode(map[string]any{
		"type": realtime.TypeResponseCreate, "event_id": id,
		"response": map[string]any{
			"instructions": "Say in one short sentence that you are still working on it. Do not say anything else.",
			"tool_choice":  "none",
		},
	})})
}

// cancelToolName is the tool by which the model ends tools on the user's word.
const cancelToolName = "cancel_running_tools"

// cancelDefinition tells the model of it.
var cancelDefinition = toolkit.Definition{
	Name:        cancelToolName,
	Description: "Cancel the tools that are still running, when the user says so (stop that, never mind).",
	Parameters:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
}

// cancelEntry is the tool of cancelToolName in a call's registry. The state
// answers its calls: only it knows what runs.
type cancelEntry struct{}

func (cancelEntry) Definition() toolkit.Definition { return cancelDefinition }

func (cancelEntry) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		yield(toolkit.Chunk{Result: &toolkit.Result{Error: "This tool works in a voice call only."}}, nil)
	}
}

// cancelRunning answers a call of cancelToolName.
func (s *state) cancelRunning(run *toolRun) {
	var names []string
	for _, other := range slices.Clone(s.open) {
		if other != run && !other.done {
			names = append(names, other.call.Name)
			s.cancelRun(other)
		}
	}
	summary := "Nothing was running."
	if len(names) > 0 {
		summary = "Cancelled: " + strings.Join(names, ", ") + "."
	}
	result := toolkit.Result{Output: encode(map[string]any{"summary": summary, "cancelled": len(names)})}
	s.closeTool(run, persistence.ToolCallDone, result)
	s.answerCall(run, result.ForModel())
}
