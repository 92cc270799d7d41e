package chat

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
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

// awaitAgain is the pause after a failure to learn of a decision.
const awaitAgain = time.Second

// questions are the calls of a turn that wait for approval. Each is a row, to which any instance
// may write the decision.
type questions struct {
	ctx   context.Context // of the turn
	store *persistence.Store
	key   thread.Key
	draft *draft
	side  *sync.WaitGroup
	open  []*call
	// news are calls of take for the turn's goroutine: for approvals that are on record now, and then decided.
	news chan func()
}

// ask makes the approval for a call, and has it saved together with the call.
func (q *questions) ask(c *call) {
	c.Ask(rand.Text(), c.Record().StartedAt)
	q.open = append(q.open, c)
	a, _ := c.Approval()
	q.draft.saver.put(persistence.PutToolCall{ToolCall: c.record(q.draft.msg.ID)}, persistence.PutApproval{Approval: a})
	q.side.Go(func() {
		if q.draft.saver.writer.Await(q.ctx, q.key) == nil && q.tell(a) {
			q.await(a)
		}
	})
}

// tell gives the turn's goroutine news. It returns false if the turn has ended.
func (q *questions) tell(a thread.Approval) bool {
	select {
	case q.news <- func() { q.take(a) }:
		return true
	case <-q.ctx.Done():
		return false
	}
}

// await passes on the decision, on whichever instance it is made, or that there is none.
func (q *questions) await(a thread.Approval) {
	ctx, cancel := context.WithDeadline(q.ctx, a.ExpiresAt)
	defer cancel()
	for ctx.Err() == nil {
		answer, err := q.store.AwaitAnswer(ctx, q.key, a.ID)
		if err == nil {
			a = answer
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(awaitAgain):
		}
	}
	if a.Outcome == thread.ApprovalOpen {
		a.Outcome = thread.ApprovalTimeout
	}
	q.tell(a)
}

// take acts on news: it tells who follows the turn about an approval that is on record, or it takes a decision.
func (q *questions) take(a thread.Approval) {
	i := slices.IndexFunc(q.open, func(c *call) bool { return c.ID == a.ID })
	switch {
	case i < 0:
	case a.Outcome != thread.ApprovalOpen:
		q.decide(q.open[i], a.Outcome)
	default:
		c := q.open[i]
		c.asked = true
		e := c.event()
		e.Input, e.Nonce = c.Part().Input, a.Nonce
		q.draft.emit(Event{Type: EventToolApproval, Call: e})
	}
}

// decide acts on the outcome of an approval. What the turn has acted on stands.
func (q *questions) decide(c *call, outcome thread.ApprovalOutcome) {
	if !c.Close(outcome) {
		return
	}
	q.open = slices.DeleteFunc(q.open, func(other *call) bool { return other == c })
	q.draft.set(c.part, c.Part())
	a, _ := c.Approval()
	if outcome == thread.ApprovalTimeout || outcome == thread.ApprovalInterrupted {
		q.draft.saver.put(persistence.PutApproval{Approval: a})
	}
	if !c.asked {
		return // nobody knows about it
	}
	q.draft.publish(eventApprovalClosed, closedEvent{ToolCallID: c.Call.ID, Approved: a.Approved(), Reason: a.Reason()})
	e := c.event()
	e.Approved, e.Reason = a.Approved(), a.Reason()
	q.draft.emit(Event{Type: EventToolDecided, Call: e})
}

// drop gives up an approval that is no longer needed.
func (q *questions) drop(c *call) { q.decide(c, thread.ApprovalInterrupted) }
