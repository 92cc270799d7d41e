package toolkit

import (
	"crypto/subtle"
	"time"
)

// ApprovalTimeout is how long the user may think about a tool call.
const ApprovalTimeout = time.Minute

// Outcome is what came of the question whether a tool may run, in the words of the table
// approvals.
type Outcome string

// The outcomes of a question. All but the first two are closed without the user's word.
const (
	ApprovalOpen        Outcome = ""
	ApprovalApproved    Outcome = "approved"
	ApprovalDenied      Outcome = "denied"
	ApprovalTimedOut    Outcome = "timeout"
	ApprovalInterrupted Outcome = "interrupted"
	ApprovalCancelled   Outcome = "cancelled" // by the user, who ended the call instead of answering
)

// Approval is one question to the user whether a tool may run.
type Approval struct {
	// Nonce must be sent along with the answer.
	Nonce     string
	AskedAt   time.Time
	ExpiresAt time.Time
	Outcome   Outcome
}

// Approved reports whether the user has agreed.
func (a Approval) Approved() bool { return a.Outcome == ApprovalApproved }

// Reason is why the question was closed; empty where the user has decided, or may still.
func (a Approval) Reason() string {
	switch a.Outcome {
	case ApprovalOpen, ApprovalApproved, ApprovalDenied:
		return ""
	default:
		return string(a.Outcome)
	}
}

// Refusal is why the tool does not run, in words for the model.
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

// NeedsApproval reports whether the user has to agree before the tool runs: the list says so, or
// the tool itself.
func (v *Invocation) NeedsApproval(list Names) bool {
	return v.known && (v.Entry.Asks || list.HasCall(v))
}

// Ask puts the call to the user. The nonce is fresh and random.
func (v *Invocation) Ask(nonce string, now time.Time) {
	v.approval = &Approval{Nonce: nonce, AskedAt: now, ExpiresAt: now.Add(ApprovalTimeout)}
}

// Approval is the question that was asked; false when there was none.
func (v *Invocation) Approval() (Approval, bool) {
	if v.approval == nil {
		return Approval{}, false
	}
	return *v.approval, true
}

// Asking reports whether the call waits for the user's word.
func (v *Invocation) Asking() bool { return v.approval != nil && v.approval.Outcome == ApprovalOpen }

// Answers reports whether the nonce is that of the open question.
func (v *Invocation) Answers(nonce string) bool {
	return v.Asking() && subtle.ConstantTimeCompare([]byte(v.approval.Nonce), []byte(nonce)) == 1
}

// Close takes what came of the question, and reports whether one was open.
func (v *Invocation) Close(outcome Outcome) bool {
	if !v.Asking() || outcome == ApprovalOpen {
		return false
	}
	v.approval.Outcome = outcome
	return true
}

// Refuse ends a call whose question was closed without a yes.
func (v *Invocation) Refuse(now time.Time) bool {
	v.Close(ApprovalInterrupted)
	return v.Finish(Result{Error: v.approval.Refusal()}, now)
}
