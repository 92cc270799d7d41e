package toolkit

import (
	"crypto/subtle"
	"time"
)

// approvalTimeout is how long the user has to decide on a tool call.
const approvalTimeout = time.Minute

// Outcome says how an approval ended, in the words of the table approvals.
type Outcome string

// The outcomes of an approval. All but the first two close it without the user's decision.
const (
	ApprovalOpen        Outcome = ""
	ApprovalApproved    Outcome = "approved"
	ApprovalDenied      Outcome = "denied"
	ApprovalTimedOut    Outcome = "timeout"
	ApprovalInterrupted Outcome = "interrupted"
	ApprovalCancelled   Outcome = "cancelled" // by the user, who ended the call instead of deciding
)

// Approval is a question to the user whether a tool may run.
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

// NeedsApproval reports whether the user must approve the call: the list says so, or the tool
// itself.
func (v *Invocation) NeedsApproval(list Names) bool {
	return v.known && (v.Entry.Asks || list.HasCall(v))
}

// Ask asks the user to approve the call, with a new random nonce.
func (v *Invocation) Ask(nonce string, now time.Time) {
	v.approval = &Approval{Nonce: nonce, AskedAt: now, ExpiresAt: now.Add(approvalTimeout)}
}

// Approval returns the approval of the call; false if there was none.
func (v *Invocation) Approval() (Approval, bool) {
	if v.approval == nil {
		return Approval{}, false
	}
	return *v.approval, true
}

// Asking reports whether the call is waiting for approval.
func (v *Invocation) Asking() bool { return v.approval != nil && v.approval.Outcome == ApprovalOpen }

// Answers reports whether the nonce is that of the open approval.
func (v *Invocation) Answers(nonce string) bool {
	return v.Asking() && subtle.ConstantTimeCompare([]byte(v.approval.Nonce), []byte(nonce)) == 1
}

// Close records the outcome of the approval, and reports whether one was open.
func (v *Invocation) Close(outcome Outcome) bool {
	if !v.Asking() || outcome == ApprovalOpen {
		return false
	}
	v.approval.Outcome = outcome
	return true
}

// Refuse ends a call whose approval was closed without being granted.
func (v *Invocation) Refuse(now time.Time) bool {
	v.Close(ApprovalInterrupted)
	return v.Finish(Result{Error: v.approval.Refusal()}, now)
}
