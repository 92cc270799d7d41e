package thread

import "time"

// ToolCall is the record of one function call, whoever ran it.
type ToolCall struct {
	ID         string // our own id
	MessageID  string // the message whose part it is
	CallID     string // id of our live call, empty in a text turn
	ToolCallID string // the model's id
	Name       string
	Executor   string
	Server     string // name of the MCP server, else empty
	Status     ToolCallStatus
	Input      string // as the model wrote it, even if malformed
	Output     string // JSON, empty until done
	Error      string
	StartedAt  time.Time
	FinishedAt *time.Time
}

// ToolCallStatus is the state of a tool call's record.
type ToolCallStatus string

// The states of a tool call's record.
const (
	ToolCallRunning   ToolCallStatus = "running"
	ToolCallWaiting   ToolCallStatus = "waiting" // for the client, whose answer may reach another process
	ToolCallDone      ToolCallStatus = "done"
	ToolCallFailed    ToolCallStatus = "failed"
	ToolCallCancelled ToolCallStatus = "cancelled"
)

// Approval asks the user whether a tool may run.
type Approval struct {
	ID         string // of the tool call's record, which must be saved first
	ToolCallID string // the model's id of the call
	Nonce      string // must be sent with the answer
	AskedAt    time.Time
	ExpiresAt  time.Time
	// Outcome, AnsweredBy and AnsweredAt say how it ended.
	Outcome    ApprovalOutcome
	AnsweredBy string // the owner who answered, else empty
	AnsweredAt *time.Time

	// Name, Executor and Input come from the tool call's record. They are read-only.
	Name     string
	Executor string
	Input    string
}

// ApprovalOutcome says how an approval ended.
type ApprovalOutcome string

// The outcomes of an approval.
const (
	ApprovalOpen         ApprovalOutcome = ""
	ApprovalApproved     ApprovalOutcome = "approved"
	ApprovalDenied       ApprovalOutcome = "denied"
	ApprovalTimeout      ApprovalOutcome = "timeout"
	ApprovalInterrupted  ApprovalOutcome = "interrupted"
	ApprovalCancelled    ApprovalOutcome = "cancelled"
	ApprovalProcessEnded ApprovalOutcome = "process_ended"
)

// Approved reports whether the user approved.
func (a Approval) Approved() bool { return a.Outcome == ApprovalApproved }

// Reason says why the approval was closed; empty if the user decided, or still may.
func (a Approval) Reason() string {
	switch a.Outcome {
	case ApprovalOpen, ApprovalApproved, ApprovalDenied:
		return ""
	default:
		return string(a.Outcome)
	}
}

// Refusal tells the model why the tool does not run.
func (a Approval) Refusal() string {
	switch a.Outcome {
	case ApprovalDenied:
		return "The user refused this tool call. Do not try it again unless the user asks for it."
	case ApprovalTimeout:
		return "The user was asked to approve this tool call and did not answer in time."
	default:
		return "The turn ended before the user decided whether this tool may run."
	}
}
