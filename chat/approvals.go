package chat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// approvalTimeout is how long the user may think about a tool call.
const approvalTimeout = time.Minute

// eventApprovalClosed tells the thread's watchers that a question is over.
const eventApprovalClosed persistence.EventType = "bridge.tool.approval_closed"

// closedEvent is its data. Reason is empty where the user has said it.
type closedEvent struct {
	ToolCallID string `json:"tool_call_id"`
	Approved   bool   `json:"approved"`
	Reason     string `json:"reason"`
}

// Decision is a user's answer to the question whether a tool may run.
type Decision struct {
	// ToolCallID and Nonce are those of the question.
	ToolCallID string
	Nonce      string
	Approved   bool
	// By is who answers, for the record.
	By string
}

// Decide takes a user's answer for the turn that waits for it: here at once, on
// another instance within a few seconds. ErrNotAsked says that no question with
// this nonce is open for the call.
func (c *Coordinator) Decide(ctx context.Context, key persistence.Key, d Decision) error {
	err := c.cfg.Store.AnswerApproval(ctx, key, d.ToolCallID, d.Nonce, d.By, d.Approved)
	if errors.Is(err, persistence.ErrNotFound) {
		return &CallError{d.ToolCallID, ErrNotAsked}
	}
	if err != nil {
		return fmt.Errorf("decide on tool call: %w", err)
	}
	c.mu.Lock()
	t := c.turns[key]
	c.mu.Unlock()
	if t != nil {
		select {
		case t.decision <- struct{}{}:
		default:
		}
	}
	return nil
}

// question asks the user whether a call may run. The answer is in the database,
// since it may come to another instance.
type question struct {
	approval persistence.Approval
	saved    bool // it is in the database, and told
}

func (q *question) open() bool { return q.approval.Outcome == persistence.ApprovalOpen }

func (q *question) approved() bool { return q.approval.Outcome == persistence.ApprovalApproved }

// reason is why it was closed; empty where the user has decided.
func (q *question) reason() string {
	switch q.approval.Outcome {
	case persistence.ApprovalApproved, persistence.ApprovalDenied:
		return ""
	default:
		return string(q.approval.Outcome)
	}
}

// refusal is why the tool does not run, in words for the model.
func (q *question) refusal() string {
	switch q.approval.Outcome {
	case persistence.ApprovalDenied:
		return "The user refused this tool call. Do not try it again unless the user asks for it."
	case persistence.ApprovalTimeout:
		return "The user was asked to approve this tool call and did not answer in time."
	default:
		return "The turn ended before the user had answered whether this tool may run."
	}
}

// ask makes the question for a call that needs one. It is saved together with
// the call.
func (t *Turn) ask(run *callRun) {
	if run.entry.Tool == nil || !t.c.approve[run.call.Name] || run.entry.Executor == toolkit.ExecutorClient || t.round >= t.c.cfg.MaxToolRounds {
		return
	}
	r := &run.record
	run.question = &question{approval: persistence.Approval{
		ID: r.ID, ToolCallID: r.ToolCallID, Nonce: rand.Text(), AskedAt: r.StartedAt, ExpiresAt: r.StartedAt.Add(approvalTimeout),
		Name: r.Name, Executor: r.Executor, Input: r.Input,
	}}
	t.asking = append(t.asking, run)
}

// consult saves the questions that are not, and gives what came of the others.
func (t *Turn) consult(b *persistence.Batch) (answers []persistence.Approval, err error) {
	for _, run := range t.asking {
		a := run.question.approval
		if !run.question.saved {
			if err := b.SaveToolCall(run.record); err != nil {
				return nil, err
			}
			if err := b.SaveApproval(a); err != nil {
				return nil, err
			}
			continue
		}
		if !time.Now().Before(a.ExpiresAt) {
			if err := b.CloseApproval(a.ID, persistence.ApprovalTimeout); err != nil {
				return nil, err
			}
		}
		if a, err = b.Approval(a.ID); err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// consulted takes what consult found, when it is committed.
func (t *Turn) consulted(answers []persistence.Approval) {
	asked := t.asking
	t.asking = nil
	for _, run := range asked {
		q := run.question
		if !q.saved {
			q.saved = true
			t.c.cfg.Store.Publish(t.ctx, t.req.Key, q.approval.Event())
			e := t.describe(run)
			e.Nonce = q.approval.Nonce
			t.emit(Event{Type: EventToolApproval, Call: e})
		}
		for _, a := range answers {
			if a.ID == q.approval.ID && a.Outcome != persistence.ApprovalOpen {
				t.decided(run, a)
			}
		}
		if q.open() {
			t.asking = append(t.asking, run)
		}
	}
}

// decided takes what came of a question.
func (t *Turn) decided(run *callRun, a persistence.Approval) {
	q := run.question
	q.approval.Outcome = a.Outcome
	if !q.saved {
		return // nobody has heard of it
	}
	t.publish(eventApprovalClosed, closedEvent{ToolCallID: run.call.ID, Approved: q.approved(), Reason: q.reason()})
	e := t.describe(run)
	e.Input = nil
	e.Approved, e.Reason = q.approved(), q.reason()
	t.emit(Event{Type: EventToolDecided, Call: e})
}

// keepDecision saves what came of the question with a call that has its result.
// The AI SDK has the field approval of a tool part (v6, ToolUIPart) for calls
// that were approved only, and refuses a thread in which an error has another one.
func (t *Turn) keepDecision(run *callRun) {
	q := run.question
	if q == nil {
		return
	}
	part := &t.msg.Parts[run.part]
	kept := encode(struct {
		ID       string `json:"id"`
		Approved bool   `json:"approved"`
		Reason   string `json:"reason,omitempty"`
	}{q.approval.Nonce, q.approved(), q.reason()})
	if q.approved() {
		setField(part, "approval", kept)
		return
	}
	setCallMetadata(part, ownMetadata, encode(map[string]json.RawMessage{"approval": kept}))
}

// stopAsking gives up a question to which no answer is waited for any more.
func (t *Turn) stopAsking(run *callRun) {
	if run.question != nil && run.question.open() {
		t.decided(run, persistence.Approval{Outcome: persistence.ApprovalInterrupted})
	}
}

// closeQuestion saves that a question is over, if an earlier save did not.
func closeQuestion(b *persistence.Batch, run *callRun) error {
	if run.question == nil || run.question.open() {
		return nil
	}
	return b.CloseApproval(run.question.approval.ID, run.question.approval.Outcome)
}
