package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// maxSessionBytes limits a text session's tools or defaults, in bytes.
const maxSessionBytes = 256 << 10

// ClaimTurn begins a text turn, which has the thread to itself, on all instances, until EndTurn, or until this process
// is fenced. What earlier turns could not finish is closed, as Recover would do it. ErrConflict means that another turn
// is running. In a batch, only RoomForTurn comes before it.
func (b *Batch) ClaimTurn(id string) error {
	return b.do("claim turn", func() error {
		if !thread.ValidID(id) {
			return Invalid("id: it is not 1 to %d bytes of text", thread.MaxIDBytes)
		}
		if err := b.lock(); err != nil {
			return err
		}
		n, err := b.q.ClaimTurn(b.ctx, pgdb.ClaimTurnParams{
			ThreadID: b.key.Thread, Owner: b.key.Owner, ID: id, Instance: b.s.Instance(),
			StartedAt: dbtype.At(b.s.now()),
		})
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: a turn is running", ErrConflict)
		}
		if err != nil {
			return err
		}
		return b.closeEarlierTurns()
	})
}

// openTextMessages lists the messages of text turns that are in progress on the thread, in order.
func openTextMessages(ctx context.Context, q queries, key thread.Key) ([]pgdb.Message, error) {
	open, err := q.ListGrowing(ctx, key.Thread, key.Owner)
	return slices.DeleteFunc(open, func(m pgdb.Message) bool { return m.CallID != "" }), err
}

// closeEarlierTurns closes what text turns left open on the thread.
func (b *Batch) closeEarlierTurns() error {
	open, err := openTextMessages(b.ctx, b.q, b.key)
	if err != nil {
		return err
	}
	for _, row := range open {
		if err := b.closeMessage(row); err != nil {
			return err
		}
		b.tellInterrupted(row)
	}
	at := dbtype.At(b.s.now())
	if err := b.q.CloseTextApprovals(b.ctx, pgdb.CloseTextApprovalsParams{
		ThreadID: b.key.Thread, Owner: b.key.Owner, Outcome: string(thread.ApprovalProcessEnded), AnsweredAt: &at,
	}); err != nil {
		return err
	}
	if err := b.q.FailTextToolCalls(b.ctx, pgdb.FailTextToolCallsParams{
		ThreadID: b.key.Thread, Owner: b.key.Owner, Error: errorProcessEnded, FinishedAt: &at,
	}); err != nil {
		return err
	}
	return b.q.FailTextResponses(b.ctx, pgdb.FailTextResponsesParams{
		ThreadID: b.key.Thread, Owner: b.key.Owner, StatusReason: reasonProcessEnded, FinishedAt: &at,
	})
}

// tellInterrupted tells what the process of a text turn, whose message this may be, can no longer tell.
func (b *Batch) tellInterrupted(row pgdb.Message) {
	if row.Status == string(thread.StatusInProgress) && row.Role == string(thread.RoleAssistant) && row.CallID == "" {
		b.tellOf(EventTurnFinished, map[string]string{"message_id": row.ID, "status": string(thread.StatusInterrupted)},
			"")
	}
}

// closeMessage closes a message, read with the thread locked, in place of its process.
func (b *Batch) closeMessage(row pgdb.Message) error {
	m, err := whole(b.ctx, b.q, row)
	if err != nil || !isOpen(m) {
		return err
	}
	// It was checked when it was saved. If it has grown a little beyond the limit since, let it.
	m = closed(m)
	change, err := messageToRow(b.key, m, b.tx.For, b.s.now())
	if err == nil {
		_, err = b.change(change)
	}
	return err
}

// runningTurn reads the turn that is running on the thread; ErrNotFound if there is none.
func runningTurn(ctx context.Context, q queries, key thread.Key) (pgdb.Turn, error) {
	row, err := q.LastTurn(ctx, key.Thread, key.Owner)
	if err == nil && row.EndedAt != nil {
		err = ErrNotFound
	}
	return row, err
}

// holds reports whether a turn still has the thread, which is locked then. None always does.
func (b *Batch) holds(turn string) (claims bool, err error) {
	if turn == "" {
		return true, nil
	}
	err = b.do("hold turn", func() error {
		if err := b.lock(); err != nil {
			return err
		}
		row, err := runningTurn(b.ctx, b.q, b.key)
		if claims = err == nil && row.ID == turn; errors.Is(b.s.fail("", err), ErrNotFound) {
			err = nil
		}
		return err
	})
	return claims, err
}

// endTurn releases the thread. It changes nothing if the turn has lost the thread.
func (b *Batch) endTurn(id string) (ended bool, err error) {
	err = b.do("end turn", func() error {
		n, err := b.q.EndTurn(b.ctx, pgdb.EndTurnParams{
			ThreadID: b.key.Thread, Owner: b.key.Owner, ID: id, EndedAt: new(dbtype.At(b.s.now())),
		})
		ended = n > 0
		return err
	})
	return ended, err
}

// StopTurn asks the turn that is running on the thread, on any instance, to stop; it finds out when
// it next looks. ErrNotFound means that none is running.
func (s *Store) StopTurn(ctx context.Context, key thread.Key) error {
	err := database.ChangeOne(ctx, roomDB{s}, key, func(q queries) (int64, error) {
		at := dbtype.At(s.now())
		return q.StopTurn(ctx, &at, key.Thread, key.Owner)
	})
	return s.fail("stop turn", err)
}

// RunningTurn reads the turn that is running on the thread, on any instance; ErrNotFound if there
// is none.
func (s *Store) RunningTurn(ctx context.Context, key thread.Key) (TurnRecord, error) {
	if err := checkKey(key); err != nil {
		return TurnRecord{}, fmt.Errorf("read turn: %w", err)
	}
	row, err := runningTurn(ctx, s.eng.read(), key)
	return TurnRecord{
		ID: row.ID, Instance: row.Instance, StartedAt: row.StartedAt.Time, StopAsked: row.StopAskedAt != nil,
	}, s.fail("read turn", err)
}

// Message reads a message and locks the thread until the end of the batch, so that the message can
// be changed and written back.
func (b *Batch) Message(id string) (m thread.Message, err error) {
	err = b.do("read message", func() error {
		if err := b.lock(); err != nil || !thread.ValidID(id) {
			return errors.Join(err, ErrNotFound)
		}
		row, err := b.q.GetMessage(b.ctx, id, b.key.Thread, b.key.Owner)
		if err == nil {
			m, err = whole(b.ctx, b.q, row)
		}
		return err
	})
	return m, err
}

// Replay is Store.Replay for a thread that the batch has locked.
func (b *Batch) Replay(n int) (messages []thread.Message, err error) {
	err = b.do("replay messages", func() error {
		if n < 0 || n > MaxReplay {
			return Invalid("number %d: 0 to %d", n, MaxReplay)
		}
		rows, err := b.q.ListReplay(b.ctx, b.key.Thread, b.key.Owner, int64(n))
		for _, row := range slices.Backward(rows) {
			m, invalid := messageFromRow(row)
			err = errors.Join(err, invalid)
			messages = append(messages, m)
		}
		return err
	})
	return messages, err
}

// lock is database.Tx.Lock.
func (b *Batch) lock() error { return b.tx.Lock() }

// SaveTextSession saves how the thread's text turns are answered.
func (b *Batch) SaveTextSession(t TextSession) error {
	return b.do("save text session", func() error {
		for _, text := range []string{t.Tools, t.Defaults} {
			if len(text) > maxSessionBytes || text != "" && !json.Valid([]byte(text)) {
				return Invalid("text session: its tools or defaults are not JSON, or more than %d bytes",
					maxSessionBytes)
			}
		}
		if max(len(t.Provider), len(t.Model)) > thread.MaxIDBytes {
			return Invalid("text session: a name has more than %d bytes", thread.MaxIDBytes)
		}
		return b.q.SaveTextSession(b.ctx, pgdb.SaveTextSessionParams{
			ThreadID: b.key.Thread, Owner: b.key.Owner, Provider: thread.CleanText(t.Provider),
			Model: thread.CleanText(t.Model), Tools: thread.CleanText(t.Tools), Defaults: thread.CleanText(t.Defaults),
			CreatedAt: dbtype.At(database.OrNow(t.CreatedAt, b.s.now())),
		})
	})
}

// TextSession reads how the thread's text turns are answered; ErrNotFound if nothing was saved about
// it.
func (s *Store) TextSession(ctx context.Context, key thread.Key) (TextSession, error) {
	if err := checkKey(key); err != nil {
		return TextSession{}, fmt.Errorf("read text session: %w", err)
	}
	r, err := s.eng.read().GetTextSession(ctx, key.Thread, key.Owner)
	return TextSession{
		Provider: r.Provider, Model: r.Model, Tools: r.Tools, Defaults: r.Defaults, CreatedAt: r.CreatedAt.Time,
	}, s.fail("read text session", err)
}

const (
	// reasonProcessEnded is the end reason of a call that its process left open.
	reasonProcessEnded = "process_ended"
	// errorProcessEnded is the result of a tool call that its process left open.
	errorProcessEnded = "process ended"
)

// isOpen reports whether closed would change the message.
func isOpen(m thread.Message) bool {
	return m.Metadata.Status == thread.StatusInProgress ||
		slices.ContainsFunc(m.Parts,
			func(p thread.Part) bool { return p.IsTool() && p.State == thread.ToolInputAvailable })
}

// closed returns the message as its process would have left it at an orderly end.
func closed(m thread.Message) thread.Message {
	switch {
	case m.Metadata.Status != thread.StatusInProgress:
	case m.Role == thread.RoleAssistant:
		m.Metadata.Status = thread.StatusInterrupted
	default:
		m.Metadata.Status = thread.StatusFailed
	}
	for i, p := range m.Parts {
		if p.IsTool() && p.State == thread.ToolInputAvailable {
			m.Parts[i].State, m.Parts[i].ErrorText = thread.ToolOutputError, errorProcessEnded
		}
	}
	return m
}
