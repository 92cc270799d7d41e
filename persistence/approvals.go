package persistence

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// maxApprovalData is the largest size of an approval's event, in bytes.
const maxApprovalData = 6000

// SaveApproval opens a question, which the thread's watchers learn with the commit. An existing one stays as it is.
func (b *Batch) SaveApproval(a thread.Approval) error {
	return b.do("save approval", func() error {
		if !thread.ValidID(a.ID) || !thread.ValidID(a.ToolCallID) || !thread.ValidID(a.Nonce) {
			return Invalid("approval: an id is not 1 to %d bytes of text", thread.MaxIDBytes)
		}
		n, err := b.q.SaveApproval(b.ctx, pgdb.SaveApprovalParams{
			ID: a.ID, ThreadID: b.key.Thread, Owner: b.key.Owner, ToolCallID: a.ToolCallID, Nonce: a.Nonce,
			Instance: b.tx.For, AskedAt: dbtype.At(b.s.clock.stored(a.AskedAt)),
			ExpiresAt: dbtype.At(b.s.clock.stored(a.ExpiresAt)),
		})
		if err != nil || n == 0 || a.Outcome != thread.ApprovalOpen {
			return err
		}
		row, err := b.q.GetApproval(b.ctx, a.ID, b.key.Thread, b.key.Owner)
		if err == nil {
			e := approvalEvent(approvalFromRow(&b.s.clock, row))
			b.published.tell(b.key, e)
			b.hooking.event(e, a.ID)
		}
		return err
	})
}

// CloseApproval closes a question that is still open. An earlier answer stays, and a missing
// question is not an error.
func (b *Batch) CloseApproval(id string, outcome thread.ApprovalOutcome) error {
	return b.do("close approval", func() error {
		if outcome == thread.ApprovalOpen {
			return Invalid("approval: it cannot be opened again")
		}
		at := dbtype.At(b.s.now())
		_, err := b.q.CloseApproval(b.ctx, pgdb.CloseApprovalParams{
			ID: id, ThreadID: b.key.Thread, Owner: b.key.Owner, Outcome: string(outcome), AnsweredAt: &at,
		})
		return err
	})
}

// SettleApproval saves a question with its outcome, if it has one: what the asker has acted on
// stands, even over an answer that came too late.
func (b *Batch) SettleApproval(a thread.Approval) error {
	if err := b.SaveApproval(a); err != nil || a.Outcome == thread.ApprovalOpen {
		return err
	}
	return b.do("close approval", func() error {
		return b.q.SettleApproval(b.ctx, pgdb.SettleApprovalParams{
			ID: a.ID, ThreadID: b.key.Thread, Owner: b.key.Owner,
			Outcome: string(a.Outcome), AnsweredBy: thread.CleanText(a.AnsweredBy),
			AnsweredAt: new(dbtype.At(b.s.now())),
		})
	})
}

// Approval reads a question by its id.
func (s *Store) Approval(ctx context.Context, key thread.Key, id string) (thread.Approval, error) {
	if err := checkKey(key); err != nil || !thread.ValidID(id) {
		return thread.Approval{}, fmt.Errorf("read approval: %w", ErrNotFound)
	}
	row, err := s.eng.read().GetApproval(ctx, id, key.Thread, key.Owner)
	return approvalFromRow(&s.clock, row), s.fail("read approval", err)
}

// AnswerApproval answers an open question, once. by is who answers. ErrNotFound means that no
// question with this nonce is open for the call.
func (s *Store) AnswerApproval(ctx context.Context, key thread.Key, toolCallID, nonce, by string, approved bool) error {
	if !thread.ValidID(toolCallID) || !thread.ValidID(nonce) {
		return fmt.Errorf("answer approval: %w", ErrNotFound)
	}
	outcome := thread.ApprovalDenied
	if approved {
		outcome = thread.ApprovalApproved
	}
	err := s.changeEvents(ctx, key, func(q queries, t *transactionEvents) (int64, error) {
		at := dbtype.At(s.now())
		t.tell(key, Event{Type: EventApprovalAnswered, Data: json.RawMessage("{}")})
		return q.AnswerApproval(ctx, pgdb.AnswerApprovalParams{
			Outcome: string(outcome), AnsweredBy: thread.CleanText(by), AnsweredAt: &at, Now: at,
			ToolCallID: toolCallID, Nonce: nonce, ThreadID: key.Thread, Owner: key.Owner,
		})
	})
	return s.fail("answer approval", err)
}

// AwaitAnswer waits until a question is answered or closed, on whichever instance. It need not be saved yet.
func (s *Store) AwaitAnswer(ctx context.Context, key thread.Key, id string) (a thread.Approval, err error) {
	answered := func() bool {
		a, err = s.Approval(ctx, key, id)
		return err == nil && a.Outcome != thread.ApprovalOpen
	}
	watch := s.Watch(key) // first listen, then read
	defer watch.Close()
	if answered() {
		return a, nil
	}
	for e, failed := range watch.Events(ctx, -1) {
		if failed != nil {
			return a, fmt.Errorf("await answer: %w", failed)
		}
		if e.Type == EventApprovalAnswered && answered() {
			break
		}
	}
	return a, err
}

// OpenApprovals lists the questions of the thread that can be answered now, oldest first.
func (s *Store) OpenApprovals(ctx context.Context, key thread.Key) ([]thread.Approval, error) {
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	found, err := s.eng.read().ListOpenApprovals(ctx, key.Thread, key.Owner, dbtype.At(s.now()))
	open, err := database.Rows(found, err, func(r pgdb.ListOpenApprovalsRow) thread.Approval {
		return approvalFromRow(&s.clock, pgdb.GetApprovalRow(r))
	})
	return open, s.fail("list approvals", err)
}

func approvalFromRow(c *clock, r pgdb.GetApprovalRow) thread.Approval {
	return thread.Approval{
		ID: r.ID, ToolCallID: r.ToolCallID, Nonce: r.Nonce, AskedAt: c.local(r.AskedAt.Time),
		ExpiresAt: c.local(r.ExpiresAt.Time), Outcome: thread.ApprovalOutcome(r.Outcome), AnsweredBy: r.AnsweredBy,
		AnsweredAt: r.AnsweredAt.Ptr(), Name: r.Name, Executor: r.Executor, Input: r.Input,
	}
}

// approvalData is the data of EventApprovalRequired.
type approvalData struct {
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
	Executor   string          `json:"executor"`
	Input      json.RawMessage `json:"input"`
	// InputClipped means that Input is a string with only the beginning of the input, all of which
	// is in the message.
	InputClipped bool   `json:"input_clipped,omitempty"`
	Nonce        string `json:"nonce"`
	// ExpiresAt is the deadline for an answer.
	ExpiresAt time.Time `json:"expires_at"`
}

// approvalEvent returns the question in the form that the thread's watchers get.
func approvalEvent(a thread.Approval) Event {
	d := approvalData{
		ToolCallID: a.ToolCallID, Name: a.Name, Executor: a.Executor, Nonce: a.Nonce, ExpiresAt: a.ExpiresAt,
		Input: thread.AsJSON(json.RawMessage(a.Input)),
	}
	if d.Input == nil {
		d.Input = json.RawMessage("{}")
	}
	data := d.encode()
	for left := a.Input; len(data) > maxApprovalData && left != ""; data = d.encode() {
		left = strings.ToValidUTF8(left[:len(left)*maxApprovalData/len(data)], "")
		d.Input, _ = thread.Encode(left) // a string can always be encoded
		d.InputClipped = true
	}
	return Event{Type: EventApprovalRequired, Data: data}
}

func (d approvalData) encode() json.RawMessage {
	data, err := thread.Encode(d)
	if err != nil { // its input has been checked
		panic(fmt.Sprintf("encode approval: %v", err))
	}
	return data
}
