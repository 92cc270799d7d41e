package queued

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// ClaimOptions say which message of a queue to take, and how.
type ClaimOptions struct {
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

// Claim is the result of Claim.
type Claim struct {
	// Message is the message to send now; nil if there is none, or not yet.
	Message *Message
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

// Unsent reports whether the thread has a message that Claim could return, now or later. It
// is cheap.
func (s *Store) Unsent(ctx context.Context, key thread.Key) (bool, error) {
	n, err := s.db.Read().CountUnsent(ctx, key.Thread, key.Owner)
	return n > 0, s.db.Fail("count queue", err)
}

// Claim takes the next message of the thread's queue for this process to send. It becomes a
// message of the thread with Tx.Send, or goes back with Requeue; otherwise it goes back when this process is fenced.
// This process claims one message of a thread at a time: one that it has claimed before counts as given up. With
// ClaimOptions.ID, a message that cannot be claimed is ErrNotFound or ErrBusy; without it, Claim.Message is nil then.
func (s *Store) Claim(ctx context.Context, key thread.Key, o ClaimOptions) (claim Claim, err error) {
	err = s.locked(ctx, key, "claim queued message", func(q Tx) error {
		claim = Claim{}
		free, err := q.free(o, &claim)
		if err != nil || !free {
			return err
		}
		row, err := q.next(o, &claim)
		if err != nil || row.ID == "" {
			return err
		}
		row.State, row.Attempts = string(Sending), row.Attempts+1
		row.Instance, row.NotBefore = s.db.Instance(), nil
		m, err := fromRow(row, q.change(row))
		if err == nil {
			claim.Message = &m
		}
		return err
	})
	return claim, err
}

// next finds the row to send; an empty one means that there is none.
func (q Tx) next(o ClaimOptions, claim *Claim) (pgdb.QueuedMessage, error) {
	none := pgdb.QueuedMessage{}
	head, found, err := q.head(q.tx.Now())
	if err != nil {
		return none, err
	}
	busy := found && q.elsewhere(head)
	if o.ID != "" {
		row, err := q.queued(o.ID)
		if busy || q.elsewhere(row) || claim.InCall && row.SentAt != nil {
			return none, database.ErrBusy
		}
		return row, err
	}
	if !found || busy {
		return none, nil
	}
	if pause, err := pauseOf(q.tx.Ctx, q.tx.Q, q.tx.Key); err != nil || pause != nil {
		return none, err
	}
	if claim.InCall && head.SentAt != nil {
		if head, found, err = q.firstUnsent(); err != nil || !found {
			return none, err
		}
	}
	if head.NotBefore != nil && head.NotBefore.After(q.tx.Now()) {
		claim.Wait = q.tx.Local(head.NotBefore.Time)
		return none, nil
	}
	return head, nil
}

// elsewhere reports whether another process is sending the message.
func (q Tx) elsewhere(row pgdb.QueuedMessage) bool {
	return row.State == string(Sending) && row.Instance != q.tx.Instance()
}

// firstUnsent returns the first due row that is not in the thread yet.
func (q Tx) firstUnsent() (row pgdb.QueuedMessage, found bool, err error) {
	rows, err := q.due(q.tx.Now(), maxQueueRows)
	for _, r := range rows {
		if r.SentAt == nil {
			return r, true, err
		}
	}
	return row, false, err
}

// free reports whether the thread is free: no text turn is running, no other process has a call on
// it, and, without a call, no turn has just ended.
func (q Tx) free(o ClaimOptions, claim *Claim) (bool, error) {
	busy := error(nil)
	if o.ID != "" {
		busy = database.ErrBusy
	}
	turn, err := q.tx.Q.LastTurn(q.tx.Ctx, q.tx.Key.Thread, q.tx.Key.Owner)
	switch {
	case database.IsMissing(err): // there was none
	case err != nil:
		return false, err
	case turn.EndedAt == nil:
		return false, busy
	}
	call, err := q.tx.Q.GetLiveCall(q.tx.Ctx, q.tx.Key.Thread, q.tx.Key.Owner)
	switch {
	case database.IsMissing(err):
	case err != nil:
		return false, err
	case call.Instance != q.tx.Instance():
		return false, busy
	case call.ID == o.Call:
		claim.InCall = true
		return true, nil
	}
	if turn.EndedAt == nil || o.ID != "" || !turn.EndedAt.After(q.tx.Stored(o.Since)) {
		return true, nil
	}
	if next := turn.EndedAt.Add(o.Distance); next.After(q.tx.Now()) {
		claim.Wait = q.tx.Local(next)
		if turn.Instance != q.tx.Instance() {
			return false, nil
		}
		row, err := q.next(o, claim)
		claim.Next = row.ID
		return false, err
	}
	return true, nil
}

// Send marks a message as sent; in the same batch it becomes a message of the thread, unless it is in it. attempt
// is that of the claim. answering means that a turn of this process answers it, which must end with
// Answered or Requeue; otherwise the message is claimed again once the turn is gone. It
// returns false, and changes nothing, if the claim was lost; the batch may go on.
func (q Tx) Send(id string, attempt int, answering bool) (sent bool, err error) {
	state := Sent
	if answering {
		state = Answering
	}
	return q.changeClaimed("send queued message", id, attempt, func(row *pgdb.QueuedMessage) error {
		row.State, row.Error = string(state), ""
		row.SentAt = cmp.Or(row.SentAt, new(dbtype.At(q.tx.Now())))
		return nil
	})
}

// Answered records that a message's turn has ended. Like Send it returns false if the
// claim was lost.
func (q Tx) Answered(id string, attempt int) (bool, error) {
	return q.changeClaimed("end queued message", id, attempt, func(row *pgdb.QueuedMessage) error {
		row.State = string(Sent)
		return nil
	})
}

// Settle ends a message that waits to be answered again: another turn answers or replaces it. It returns false, and
// changes nothing, if the message does not wait for that, or is being sent.
func (q Tx) Settle(id string) (settled bool, err error) {
	err = q.tx.Do("settle queued message", func() error {
		if err := q.tx.Lock(); err != nil {
			return err
		}
		row, err := q.waiting(id)
		if known := q.tx.Fail("", err); errors.Is(known, database.ErrNotFound) ||
			errors.Is(known, database.ErrConflict) {
			return nil
		}
		if settled = err == nil && row.SentAt != nil; !settled {
			return err
		}
		row.State = string(Sent)
		return q.change(row)
	})
	return settled, err
}

// Close marks a queued message as sent, because the thread has the message that it becomes. Nothing changes if it
// is gone, was edited, or is the thread's already: then its turn settles it.
func (q Tx) Close(id, messageID string) error {
	if err := q.tx.Lock(); err != nil {
		return err
	}
	row, err := q.tx.Q.GetQueued(q.tx.Ctx, id, q.tx.Key.Thread, q.tx.Key.Owner)
	if database.IsMissing(err) || err == nil && (row.MessageID != messageID || row.SentAt != nil) {
		return nil
	}
	if err != nil {
		return err
	}
	row.State, row.Error = string(Sent), ""
	row.Instance = ""
	row.SentAt = new(dbtype.At(q.tx.Now()))
	return q.change(row)
}

// changeClaimed changes the row of a claim that is still held.
func (q Tx) changeClaimed(what, id string, attempt int, change func(*pgdb.QueuedMessage) error) (ours bool, err error) {
	err = q.tx.Do(what, func() error {
		row, ok, err := q.claimed(id, attempt)
		if err != nil || !ok {
			return err
		}
		if err := change(&row); err != nil {
			return err
		}
		ours = true
		return q.change(row)
	})
	return ours, err
}

// claimed reads the row of a claim and reports whether the process on whose behalf this is still holds the claim.
func (q Tx) claimed(id string, attempt int) (row pgdb.QueuedMessage, ours bool, err error) {
	if err := q.tx.Lock(); err != nil {
		return row, false, err
	}
	row, err = q.tx.Q.GetQueued(q.tx.Ctx, id, q.tx.Key.Thread, q.tx.Key.Owner)
	if database.IsMissing(err) {
		return row, false, nil
	}
	ours = row.State != string(Waiting) && row.Attempts == int64(attempt) && row.Instance == q.tx.For
	return row, ours, err
}

// Claimed names the claim of a message: its id, and the attempt that the claim is.
type Claimed struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
}

// Answer is the end of the turn that answers a message, which was claimed for that.
type Answer struct {
	Claimed
	// Back says how the message goes back to its queue; nil means that it is answered.
	Back *Requeue `json:"back,omitempty"`
}

// Answer is Answered or Requeue.
func (q Tx) Answer(a Answer) (err error) {
	if a.Back == nil {
		_, err = q.Answered(a.ID, a.Attempt)
	} else {
		_, err = q.Requeue(a.ID, a.Attempt, *a.Back)
	}
	return err
}

// Requeue says how a message goes back to its queue.
type Requeue struct {
	// Error says why it was not sent or answered; empty if nothing was tried, and then the attempt
	// does not count.
	Error string
	// NotBefore is when to try again; zero means at once.
	NotBefore time.Time
	// Pause, if not nil, also pauses the queue.
	Pause *Pause
}

// Requeue puts a message back at the head of its queue: one that was not sent, or one that
// was sent but not answered, to be answered again. It returns false if the claim was lost or the
// message removed.
func (q Tx) Requeue(id string, attempt int, r Requeue) (back bool, err error) {
	return q.changeClaimed("requeue message", id, attempt, func(row *pgdb.QueuedMessage) error {
		row.State, row.Instance = string(Waiting), ""
		row.Error = thread.CleanText(r.Error)
		if r.Error == "" {
			row.Attempts--
		}
		if !r.NotBefore.IsZero() {
			row.NotBefore = new(dbtype.At(q.tx.Stored(r.NotBefore)))
		}
		if r.Pause != nil {
			return q.pause(*r.Pause)
		}
		return nil
	})
}

// Requeue is Tx.Requeue for a message that was not sent. It returns false if it was, at the last moment.
func (s *Store) Requeue(ctx context.Context, key thread.Key, id string, attempt int, r Requeue) (back bool, err error) {
	err = database.Begin(ctx, s.db, key, func(tx *database.Tx) error {
		row, ours, err := In(tx).claimed(id, attempt)
		if err == nil && ours && row.State == string(Sending) {
			back, err = In(tx).Requeue(id, attempt, r)
		}
		return err
	})
	return back, err
}

// Paused lists the threads of all owners whose queues are paused for this reason. A process
// uses it at its start, because that may be what the queues wait for.
func (s *Store) Paused(ctx context.Context, reason string) ([]thread.Key, error) {
	found, err := s.db.Read().ListPausedQueues(ctx, reason)
	keys, err := database.Rows(found, err,
		func(r pgdb.ListPausedQueuesRow) thread.Key { return thread.Key{Owner: r.Owner, Thread: r.ID} })
	return keys, s.db.Fail("list paused queues", err)
}

// Due lists the threads of all owners on which this process may send a queued message now,
// most recently used first.
func (s *Store) Due(ctx context.Context, limit int) ([]thread.Key, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list due queues: %w", database.Invalid("limit %d", limit))
	}
	at := dbtype.At(s.db.Now())
	found, err := s.db.Read().ListDueQueues(ctx, s.db.Instance(), &at, int64(limit))
	keys, err := database.Rows(found, err,
		func(r pgdb.ListDueQueuesRow) thread.Key { return thread.Key{Owner: r.Owner, Thread: r.ID} })
	return keys, s.db.Fail("list due queues", err)
}
