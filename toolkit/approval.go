package toolkit

import (
	"time"
)

// approvalTimeout is how long the user has to decide about a tool call.
const approvalTimeout = time.Minute

// Outcome says how an approval ended, as in the table approvals.
type Outcome string

// The outcomes of an approval. Those after ApprovalDenied close it without a decision of the user.
const (
	ApprovalOpen        Outcome = ""
	ApprovalApproved    Outcome = "approved"
	ApprovalDenied      Outcome = "denied"
	ApprovalTimedOut    Outcome = "timeout"
	ApprovalInterrupted Outcome = "interrupted"
	ApprovalCancelled   Outcome = "cancelled" // by the user, who ended the call instead of deciding
)

// Approval is the question to the user whether a tool may run, and its outcome.
type Approval struct {
	// Nonce must be sent with the decision.
	Nonce     string
	AskedAt   time.Time
	ExpiresAt time.Time
	Outcome   Outcome
}

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
	case ApprovalTimedOut:
		return "The user was asked to approve this tool call and did not answer in time."
	default:
		return "The turn ended before the user decided whether this tool may run."
	}
}
