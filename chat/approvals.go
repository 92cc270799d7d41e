package chat

import (
	"slices"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// eventApprovalClosed tells the thread's watchers that an approval is closed.
const eventApprovalClosed persistence.EventType = "bridge.tool.approval_closed"

// closedEvent is its data. Reason is empty if the user decided.
type closedEvent struct {
	ToolCallID string `json:"tool_call_id"`
	Approved   bool   `json:"approved"`
	Reason     string `json:"reason"`
}

// questions are the calls of a turn that wait for approval. Each is a row, to which any instance
// may write the decision.
type questions struct {
	draft *draft
	open  []*call
}

// ask makes the approval for a call. It is saved together with the call.
func (q *questions) ask(c *call) {
	c.ask()
	q.open = append(q.open, c)
}

// asked is an approval on its way to the database.
type asked struct {
	question thread.Approval
	record   thread.ToolCall
	saved    bool
}

// snapshot returns the open approvals, for another goroutine to save.
func (q *questions) snapshot() []asked {
	all := make([]asked, len(q.open))
	for i, c := range q.open {
		question, _ := c.Approval()
		all[i] = asked{question: question, record: c.record(q.draft.msg.ID), saved: c.asked}
	}
	return all
}

// saveQuestions saves the new approvals, and returns the outcomes of the others.
func saveQuestions(b *persistence.Batch, all []asked) (answers []thread.Approval, err error) {
	for _, a := range all {
		if !a.saved {
			if err := b.Apply(persistence.PutToolCall{ToolCall: a.record}, persistence.PutApproval{Approval: a.question}); err != nil {
				return nil, err
			}
			continue
		}
		if !time.Now().Before(a.question.ExpiresAt) {
			a.question.Outcome = thread.ApprovalTimeout
			if err := b.Apply(closed(a.question)); err != nil {
				return nil, err
			}
		}
		answer, err := b.Approval(a.question.ID)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// saved takes the result of saveQuestions once it is committed: it tells who follows the turn about new approvals, and acts on decisions.
func (q *questions) saved(all []asked, answers []thread.Approval) {
	for _, c := range slices.Clone(q.open) {
		if !c.asked && slices.ContainsFunc(all, func(a asked) bool { return a.question.ID == c.ID }) {
			c.asked = true
			a, _ := c.Approval()
			e := c.event()
			e.Input, e.Nonce = c.Part().Input, a.Nonce
			q.draft.emit(Event{Type: EventToolApproval, Call: e})
		}
		for _, a := range answers {
			if a.ID == c.ID {
				q.decide(c, a.Outcome)
			}
		}
	}
}

// decide acts on the outcome of an approval.
func (q *questions) decide(c *call, outcome thread.ApprovalOutcome) {
	if !c.Close(outcome) {
		return
	}
	q.open = slices.DeleteFunc(q.open, func(other *call) bool { return other == c })
	q.draft.set(c.part, c.Part())
	if !c.asked {
		return // nobody knows about it
	}
	a, _ := c.Approval()
	q.draft.publish(eventApprovalClosed, closedEvent{ToolCallID: c.Call.ID, Approved: a.Approved(), Reason: a.Reason()})
	e := c.event()
	e.Approved, e.Reason = a.Approved(), a.Reason()
	q.draft.emit(Event{Type: EventToolDecided, Call: e})
}

// drop gives up an approval that is no longer needed.
func (q *questions) drop(c *call) { q.decide(c, thread.ApprovalInterrupted) }

// closed is the change that closes an approval if it is open: somebody may have decided meanwhile.
func closed(a thread.Approval) persistence.Change {
	return persistence.PutApproval{Approval: thread.Approval{ID: a.ID, Outcome: a.Outcome}}
}
