package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

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

// ask makes the question for a call that needs one. It is saved together with
// the call.
func (t *Turn) ask(run *callRun) {
	if !run.Known() || !t.c.cfg.ApproveTools.HasCall(run.Invocation) || run.Entry.Executor == toolkit.ExecutorClient || t.round >= t.c.cfg.MaxToolRounds {
		return
	}
	run.Ask(rand.Text(), run.Record().StartedAt)
	t.asking = append(t.asking, run)
}

// savedApproval is the question about a call as the database has it.
func savedApproval(run *callRun) persistence.Approval {
	a, _ := run.Approval()
	r := run.Record()
	return persistence.Approval{
		ID: r.ID, ToolCallID: r.ToolCallID, Nonce: a.Nonce, AskedAt: a.AskedAt, ExpiresAt: a.ExpiresAt,
		Outcome: persistence.ApprovalOutcome(a.Outcome), Name: r.Name, Executor: r.Executor, Input: r.Input,
	}
}

// consult saves the questions that are not, and gives what came of the others.
func (t *Turn) consult(b *persistence.Batch) (answers []persistence.Approval, err error) {
	for _, run := range t.asking {
		a := savedApproval(run)
		if !run.asked {
			if err := b.SaveToolCall(t.record(run)); err != nil {
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
	asking := t.asking
	t.asking = nil
	for _, run := range asking {
		if !run.asked {
			run.asked = true
			a := savedApproval(run)
			t.c.cfg.Store.Publish(t.ctx, t.req.Key, a.Event())
			e := t.describe(run)
			e.Nonce = a.Nonce
			t.emit(Event{Type: EventToolApproval, Call: e})
		}
		for _, a := range answers {
			if a.ID == run.ID {
				t.decided(run, toolkit.Outcome(a.Outcome))
			}
		}
		if run.Asking() {
			t.asking = append(t.asking, run)
		}
	}
}

// decided takes what came of a question.
func (t *Turn) decided(run *callRun, outcome toolkit.Outcome) {
	if !run.Close(outcome) {
		return
	}
	t.msg.Parts[run.part] = savedPart(run.Part())
	t.changed()
	if !run.asked {
		return // nobody has heard of it
	}
	a, _ := run.Approval()
	t.publish(eventApprovalClosed, closedEvent{ToolCallID: run.Call.ID, Approved: a.Approved(), Reason: a.Reason()})
	e := t.describe(run)
	e.Input = nil
	e.Approved, e.Reason = a.Approved(), a.Reason()
	t.emit(Event{Type: EventToolDecided, Call: e})
}

// stopAsking gives up a question to which no answer is waited for any more.
func (t *Turn) stopAsking(run *callRun) { t.decided(run, toolkit.ApprovalInterrupted) }

// closeApproval saves that a question is over, if an earlier save did not.
func closeApproval(b *persistence.Batch, run *callRun) error {
	a, asked := run.Approval()
	if !asked || run.Asking() {
		return nil
	}
	return b.CloseApproval(run.ID, persistence.ApprovalOutcome(a.Outcome))
}
