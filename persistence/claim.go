package persistence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// ClaimOptions say which message of a queue to take, and how.
type ClaimOptions struct {
	// Lease is how long sending may take. After that, others may claim the message.
	Lease time.Duration
	// Distance is the least time between the end of a text turn and the next message, unless that
	// turn ended before Since.
	Distance time.Duration
	Since    time.Time
	// Call is the id of the thread's call in this process, empty for none. If another process has a
	// call on the thread, that process sends the message.
	Call string
	// ID claims only this message, even from a paused queue or before its time; empty claims the
	// next one.
	ID string
}

// Claim is the result of ClaimQueued.
type Claim struct {
	// Message is the message to send now; nil if there is none, or not yet.
	Message *QueuedMessage
	// InCall means that it is to be said in the thread's call. A message that is already in the
	// thread and only needs an answer waits for the end of the call.
	InCall bool
	// Wait is when to try again; zero if something else must happen first: a turn must end, the
	// queue be resumed, or a call on another process end.
	Wait time.Time
	// Next is the id of the message that is sent after ClaimOptions.Distance, which begins with a turn of this process;
	// empty if the wait has another reason.
	Next string
}

// ErrBusy means that a turn is running on the thread, or a message is being sent.
var ErrBusy = errors.New("the thread is busy")

// Unsent reports whether the thread has a message that ClaimQueued could return, now or later. It
// is cheap.
func (s *Store) Unsent(ctx context.Context, key thread.Key) (bool, error) {
	n, err := s.eng.read().CountUnsent(ctx, pgdb.CountUnsentParams{ThreadID: key.Thread, Owner: key.Owner})
	return n > 0, s.fail("count queue", err)
}

// ClaimQueued takes the next message of the thread's queue for this process to send. It becomes a
// message of the thread with Batch.SendQueued, or goes back with RequeueQueued; otherwise it is
// back at the head of the queue after the lease. With ClaimOptions.ID, a message that cannot be
// claimed is ErrNotFound or ErrBusy; without it, Claim.Message is nil then.
func (s *Store) ClaimQueued(ctx context.Context, key thread.Key, o ClaimOptions) (claim Claim, err error) {
	err = s.lockedBatch(ctx, key, "claim queued message", func(b *Batch) error {
		claim = Claim{}
		free, err := b.free(o, &claim)
		if err != nil || !free {
			return err
		}
		row, err := b.next(o, &claim)
		if err != nil || row.ID == "" {
			return err
		}
		at := s.now()
		row.State, row.Attempts, row.Instance = string(QueueSending), row.Attempts+1, s.lease.id()
		row.LeaseUntil, row.NotBefore = new(dbtype.At(at.Add(o.Lease))), nil
		m, err := queuedFromRow(row, b.changeQueued(row))
		if err == nil {
			claim.Message = &m
		}
		return err
	})
	return claim, err
}

// next finds the row to send; an empty one means that there is none.
func (b *Batch) next(o ClaimOptions, claim *Claim) (pgdb.QueuedMessage, error) {
	none := pgdb.QueuedMessage{}
	head, found, err := b.head(b.s.now())
	if err != nil {
		return none, err
	}
	busy := found && leased(head, b.s.now())
	if o.ID != "" {
		row, err := b.waiting(o.ID)
		if busy || errors.Is(err, ErrConflict) || claim.InCall && row.SentAt != nil {
			return none, ErrBusy
		}
		return row, err
	}
	if !found || busy {
		return none, nil
	}
	if pause, err := pauseOf(b.ctx, b.s, b.q, b.key); err != nil || pause != nil {
		return none, err
	}
	if claim.InCall && head.SentAt != nil {
		if head, found, err = b.firstUnsent(); err != nil || !found {
			return none, err
		}
	}
	if head.NotBefore != nil && head.NotBefore.After(b.s.now()) {
		claim.Wait = b.s.clock.local(head.NotBefore.Time)
		return none, nil
	}
	return head, nil
}

// firstUnsent returns the first due row that is not in the thread yet.
func (b *Batch) firstUnsent() (row pgdb.QueuedMessage, found bool, err error) {
	rows, err := b.due(b.s.now(), maxQueueRows)
	for _, r := range rows {
		if r.SentAt == nil {
			return r, true, err
		}
	}
	return row, false, err
}

// free reports whether the thread is free: no text turn is running, no other process has a call on
// it, and, without a call, no turn has just ended.
func (b *Batch) free(o ClaimOptions, claim *Claim) (bool, error) {
	busy := error(nil)
	if o.ID != "" {
		busy = ErrBusy
	}
	turn, err := b.q.LastTurn(b.ctx, pgdb.LastTurnParams{ThreadID: b.key.Thread, Owner: b.key.Owner})
	switch missing := errors.Is(b.s.fail("", err), ErrNotFound); {
	case missing: // there was none
	case err != nil:
		return false, err
	case turn.EndedAt == nil && !turn.LeaseUntil.Before(b.s.now()):
		return false, busy
	}
	call, err := b.q.GetLiveCall(b.ctx, pgdb.GetLiveCallParams{ThreadID: b.key.Thread, Owner: b.key.Owner})
	switch missing := errors.Is(b.s.fail("", err), ErrNotFound); {
	case missing:
	case err != nil:
		return false, err
	case call.Instance != b.s.lease.id():
		return false, busy
	case call.ID == o.Call:
		claim.InCall = true
		return true, nil
	}
	if turn.EndedAt == nil || o.ID != "" || !turn.EndedAt.After(b.s.clock.stored(o.Since)) {
		return true, nil
	}
	if next := turn.EndedAt.Add(o.Distance); next.After(b.s.now()) {
		claim.Wait = b.s.clock.local(next)
		if turn.Instance != b.s.lease.id() {
			return false, nil
		}
		row, err := b.next(o, claim)
		claim.Next = row.ID
		return false, err
	}
	return true, nil
}

// SendQueued marks a message as sent; in the same batch it becomes a message of the thread, unless it is in it. attempt
// is that of the claim. answering means that a turn of this process answers it, which must end with
// AnsweredQueued or RequeueQueued; otherwise the message is claimed again once the turn is gone. It
// returns false, and changes nothing, if the claim was lost; the batch may go on.
func (b *Batch) SendQueued(id string, attempt int, answering bool) (sent bool, err error) {
	state := QueueSent
	if answering {
		state = QueueAnswering
	}
	return b.changeClaimed("send queued message", id, attempt, func(row *pgdb.QueuedMessage) error {
		row.State, row.LeaseUntil, row.Error = string(state), nil, ""
		row.SentAt = cmp.Or(row.SentAt, new(dbtype.At(b.s.now())))
		return nil
	})
}

// AnsweredQueued records that a message's turn has ended. Like SendQueued it returns false if the
// claim was lost.
func (b *Batch) AnsweredQueued(id string, attempt int) (bool, error) {
	return b.changeClaimed("end queued message", id, attempt, func(row *pgdb.QueuedMessage) error {
		row.State = string(QueueSent)
		return nil
	})
}

// SettleQueued ends a message that waits to be answered again: another turn answers or replaces it. It returns false, and
// changes nothing, if the message does not wait for that, or is being sent.
func (b *Batch) SettleQueued(id string) (settled bool, err error) {
	err = b.do("settle queued message", func() error {
		if err := b.lock(); err != nil {
			return err
		}
		row, err := b.waiting(id)
		if known := b.s.fail("", err); errors.Is(known, ErrNotFound) || errors.Is(known, ErrConflict) {
			return nil
		}
		if settled = err == nil && row.SentAt != nil; !settled {
			return err
		}
		row.State = string(QueueSent)
		return b.changeQueued(row)
	})
	return settled, err
}

// closeQueued marks a queued message as sent, because the thread has the message that it becomes. Nothing changes if it
// is gone, was edited, or is the thread's already: then its turn settles it.
func (b *Batch) closeQueued(id, messageID string) error {
	if err := b.lock(); err != nil {
		return err
	}
	row, err := b.q.GetQueued(b.ctx, pgdb.GetQueuedParams{ID: id, ThreadID: b.key.Thread, Owner: b.key.Owner})
	if b.s.isMissing(err) || err == nil && (row.MessageID != messageID || row.SentAt != nil) {
		return nil
	}
	if err != nil {
		return err
	}
	row.State, row.LeaseUntil, row.Error, row.Instance = string(QueueSent), nil, "", ""
	row.SentAt = new(dbtype.At(b.s.now()))
	return b.changeQueued(row)
}

// changeClaimed changes the row of a claim that is still held.
func (b *Batch) changeClaimed(what, id string, attempt int, change func(*pgdb.QueuedMessage) error) (held bool, err error) {
	err = b.do(what, func() error {
		row, ok, err := b.claimed(id, attempt)
		if err != nil || !ok {
			return err
		}
		if err := change(&row); err != nil {
			return err
		}
		held = true
		return b.changeQueued(row)
	})
	return held, err
}

// claimed reads the row of a claim and reports whether the claim is still held.
func (b *Batch) claimed(id string, attempt int) (row pgdb.QueuedMessage, held bool, err error) {
	if err := b.lock(); err != nil {
		return row, false, err
	}
	row, err = b.q.GetQueued(b.ctx, pgdb.GetQueuedParams{ID: id, ThreadID: b.key.Thread, Owner: b.key.Owner})
	if errors.Is(b.s.fail("", err), ErrNotFound) {
		return row, false, nil
	}
	held = row.State != string(QueueWaiting) && row.Attempts == int64(attempt) && row.Instance == b.s.lease.id()
	return row, held, err
}

// Requeue says how a message goes back to its queue.
type Requeue struct {
	// Error says why it was not sent or answered; empty if nothing was tried, and then the attempt
	// does not count.
	Error string
	// NotBefore is when to try again; zero means at once.
	NotBefore time.Time
	// Pause, if not nil, also pauses the queue.
	Pause *QueuePause
}

// RequeueQueued puts a message back at the head of its queue: one that was not sent, or one that
// was sent but not answered, to be answered again. It returns false if the claim was lost or the
// message removed.
func (b *Batch) RequeueQueued(id string, attempt int, r Requeue) (back bool, err error) {
	return b.changeClaimed("requeue message", id, attempt, func(row *pgdb.QueuedMessage) error {
		row.State, row.LeaseUntil, row.Instance, row.Error = string(QueueWaiting), nil, "", thread.CleanText(r.Error)
		if r.Error == "" {
			row.Attempts--
		}
		if !r.NotBefore.IsZero() {
			row.NotBefore = new(dbtype.At(b.s.clock.stored(r.NotBefore)))
		}
		if r.Pause != nil {
			return b.pauseQueue(*r.Pause)
		}
		return nil
	})
}

// RequeueQueued is Batch.RequeueQueued.
func (s *Store) RequeueQueued(ctx context.Context, key thread.Key, id string, attempt int, r Requeue) (back bool, err error) {
	err = s.Batch(ctx, key, func(b *Batch) (err error) {
		back, err = b.RequeueQueued(id, attempt, r)
		return err
	})
	return back, err
}

// PausedQueues lists the threads of all owners whose queues are paused for this reason. A process
// uses it at its start, because that may be what the queues wait for.
func (s *Store) PausedQueues(ctx context.Context, reason string) ([]thread.Key, error) {
	found, err := s.eng.read().ListPausedQueues(ctx, pgdb.ListPausedQueuesParams{Reason: reason})
	keys, err := rows(found, err, func(r pgdb.ListPausedQueuesRow) thread.Key { return thread.Key{Owner: r.Owner, Thread: r.ID} })
	return keys, s.fail("list paused queues", err)
}

// DueQueues lists the threads of all owners on which this process may send a queued message now,
// most recently used first.
func (s *Store) DueQueues(ctx context.Context, limit int) ([]thread.Key, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list due queues: %w", Invalid("limit %d", limit))
	}
	at := dbtype.At(s.now())
	found, err := s.eng.read().ListDueQueues(ctx, pgdb.ListDueQueuesParams{Now: &at, Instance: s.lease.id(), MaxRows: int64(limit)})
	keys, err := rows(found, err, func(r pgdb.ListDueQueuesRow) thread.Key { return thread.Key{Owner: r.Owner, Thread: r.ID} })
	return keys, s.fail("list due queues", err)
}
