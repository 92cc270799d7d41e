package persistence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Limits on a queued message.
const (
	MaxQueuedBytes = 256 << 10 // of its text
	MaxImageIDs    = 10
	// maxQueueRows limits how many messages of one queue are listed.
	maxQueueRows = 10_000
	// maxQueuedTitle limits a message's title, in bytes.
	maxQueuedTitle = 1000
)

// endOfTime is later than any time for which a message can be scheduled.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// ErrQueueFull means that a queue holds as many messages as it may.
var ErrQueueFull = errors.New("queue is full")

// QueuePause says why a queue is paused.
type QueuePause struct {
	Reason  string // for programs
	Message string // for people
	At      time.Time
}

// Enqueue adds a message to the end of the thread's queue unless that already holds limit messages
// (ErrQueueFull); 0 means no limit. If a message of the thread has the same IdempotencyKey, nothing
// changes and that message is returned, with added false; ErrConflict means that its text differs.
func (s *Store) Enqueue(ctx context.Context, key thread.Key, m QueuedMessage, limit int) (saved QueuedMessage, added bool, err error) {
	if err := m.validate(); err != nil {
		return QueuedMessage{}, false, fmt.Errorf("queue message: %w", err)
	}
	err = s.lockedBatch(ctx, key, "queue message", func(b *Batch) error {
		if m.IdempotencyKey != "" {
			row, err := b.q.GetQueuedByKey(ctx, pgdb.GetQueuedByKeyParams{IdempotencyKey: &m.IdempotencyKey, ThreadID: key.Thread, Owner: key.Owner})
			if known := s.fail("", err); !errors.Is(known, ErrNotFound) {
				if saved, err = queuedFromRow(row, err); err == nil && saved.Text != thread.CleanText(m.Text) {
					err = fmt.Errorf("%w: the idempotency key belongs to another message", ErrConflict)
				}
				return err
			}
		}
		n, err := b.q.CountQueued(ctx, pgdb.CountQueuedParams{ThreadID: key.Thread, Owner: key.Owner})
		if err != nil {
			return err
		}
		if limit > 0 && n >= int64(limit) {
			return ErrQueueFull
		}
		row, err := queuedToRow(key, m, s.now())
		if err != nil {
			return err
		}
		added = true
		saved, err = queuedFromRow(b.q.InsertQueued(ctx, row))
		return err
	})
	if err != nil {
		return QueuedMessage{}, false, err
	}
	return saved, added, nil
}

func (m QueuedMessage) validate() error {
	switch {
	case strings.TrimSpace(thread.CleanText(m.Text)) == "":
		return Invalid("message: it is empty")
	case len(m.Text) > MaxQueuedBytes:
		return Invalid("message: it has %d bytes, at most %d are allowed", len(m.Text), MaxQueuedBytes)
	case len(m.ImageIDs) > MaxImageIDs:
		return Invalid("image_ids: there are %d, at most %d are allowed", len(m.ImageIDs), MaxImageIDs)
	case m.ScheduledAt != nil && (m.ScheduledAt.UTC().Year() < 1 || m.ScheduledAt.After(endOfTime)):
		return Invalid("scheduled_at: the year %d", m.ScheduledAt.Year())
	}
	for _, id := range append([]string{m.ClientID, m.IdempotencyKey}, m.ImageIDs...) {
		if id != "" && !thread.ValidID(id) {
			return Invalid("client_id, idempotency_key or image_ids: an id is not 1 to %d bytes of text", thread.MaxIDBytes)
		}
	}
	if slices.Contains(m.ImageIDs, "") {
		return Invalid("image_ids: an id is empty")
	}
	return nil
}

// Queue lists what waits on the thread, in the order of sending, and why the queue is paused, if it
// is.
func (s *Store) Queue(ctx context.Context, key thread.Key) ([]QueuedMessage, *QueuePause, error) {
	if err := checkKey(key); err != nil {
		return nil, nil, fmt.Errorf("list queue: %w", err)
	}
	q := s.eng.read()
	if _, err := s.thread(ctx, key); err != nil {
		return nil, nil, s.fail("list queue", err)
	}
	rows, err := q.ListQueued(ctx, pgdb.ListQueuedParams{
		ThreadID: key.Thread, Owner: key.Owner, DueBy: new(dbtype.At(endOfTime)), MaxRows: maxQueueRows,
	})
	if err != nil {
		return nil, nil, s.fail("list queue", err)
	}
	list := make([]QueuedMessage, 0, len(rows))
	for _, row := range rows {
		m, err := queuedFromRow(row, nil)
		if err != nil {
			return nil, nil, err
		}
		if m.State.Waits() {
			list = append(list, m)
		}
	}
	pause, err := pauseOf(ctx, s, q, key)
	if err != nil {
		return nil, nil, s.fail("list queue", err)
	}
	return list, pause, nil
}

// QueuePause says why the thread's queue is paused; nil if it is not.
func (s *Store) QueuePause(ctx context.Context, key thread.Key) (*QueuePause, error) {
	pause, err := pauseOf(ctx, s, s.eng.read(), key)
	return pause, s.fail("read queue", err)
}

func pauseOf(ctx context.Context, s *Store, q queries, key thread.Key) (*QueuePause, error) {
	row, err := q.GetQueuePause(ctx, pgdb.GetQueuePauseParams{ThreadID: key.Thread, Owner: key.Owner})
	if errors.Is(s.fail("", err), ErrNotFound) {
		return nil, nil //nolint:nilnil // it is not paused
	}
	if err != nil {
		return nil, err
	}
	return &QueuePause{Reason: row.Reason, Message: row.Message, At: row.PausedAt.Time}, nil
}

// QueueLength returns how many messages wait on the thread.
func (s *Store) QueueLength(ctx context.Context, key thread.Key) (int, error) {
	if err := checkKey(key); err != nil {
		return 0, fmt.Errorf("count queue: %w", err)
	}
	n, err := s.eng.read().CountQueued(ctx, pgdb.CountQueuedParams{ThreadID: key.Thread, Owner: key.Owner})
	return int(n), s.fail("count queue", err)
}

// QueuedMessages counts messages of all owners that wait or are being sent, for operators.
func (s *Store) QueuedMessages(ctx context.Context) (int64, error) {
	n, err := s.eng.read().CountAllUnsent(ctx)
	return n, s.fail("count queued messages", err)
}

// QueuedMessage reads a waiting or sent message.
func (s *Store) QueuedMessage(ctx context.Context, key thread.Key, id string) (QueuedMessage, error) {
	if err := checkKey(key); err != nil || !thread.ValidID(id) {
		return QueuedMessage{}, fmt.Errorf("read queued message: %w", ErrNotFound)
	}
	m, err := queuedFromRow(s.eng.read().GetQueued(ctx, pgdb.GetQueuedParams{ID: id, ThreadID: key.Thread, Owner: key.Owner}))
	return m, s.fail("read queued message", err)
}

// Unqueue removes a waiting message and returns it. ErrConflict means that it is being sent.
func (s *Store) Unqueue(ctx context.Context, key thread.Key, id string) (m QueuedMessage, err error) {
	err = s.lockedBatch(ctx, key, "remove queued message", func(b *Batch) error {
		row, err := b.waiting(id)
		if err != nil {
			return err
		}
		_, err = b.q.DeleteQueued(ctx, pgdb.DeleteQueuedParams{ID: id, ThreadID: key.Thread, Owner: key.Owner})
		m, err = queuedFromRow(row, err)
		return err
	})
	return m, err
}

// ClearQueue removes all waiting messages and returns how many there were. A message that is being
// sent stays.
func (s *Store) ClearQueue(ctx context.Context, key thread.Key) (removed int, err error) {
	err = s.lockedBatch(ctx, key, "clear queue", func(b *Batch) error {
		at := dbtype.At(s.now())
		n, err := b.q.ClearQueued(ctx, pgdb.ClearQueuedParams{ThreadID: key.Thread, Owner: key.Owner, Now: &at})
		removed = int(n)
		return err
	})
	return removed, err
}

// EditQueued changes the text of a waiting message and removes its title. ErrConflict means that it
// is being sent.
func (s *Store) EditQueued(ctx context.Context, key thread.Key, id, text string) (m QueuedMessage, err error) {
	if err := (QueuedMessage{Text: text}).validate(); err != nil {
		return QueuedMessage{}, fmt.Errorf("edit queued message: %w", err)
	}
	err = s.lockedBatch(ctx, key, "edit queued message", func(b *Batch) error {
		row, err := b.waiting(id)
		if err != nil {
			return err
		}
		row.Message, row.Error, row.NotBefore = thread.CleanText(text), "", nil
		if row.SentAt != nil || row.Attempts > 0 { // the old text is in the thread, or in a spool: this is another message
			row.SentAt, row.MessageID = nil, NewID()
		}
		if _, err := b.q.TitleQueued(ctx, pgdb.TitleQueuedParams{ID: id, ThreadID: key.Thread, Owner: key.Owner}); err != nil {
			return err
		}
		row.Title = ""
		m, err = queuedFromRow(row, b.changeQueued(row))
		return err
	})
	return m, err
}

// MoveQueued swaps a message with the one before it (up) or after it. It returns false if there is
// none: messages that have been tried or are scheduled cannot be reordered.
func (s *Store) MoveQueued(ctx context.Context, key thread.Key, id string, up bool) (moved bool, err error) {
	err = s.lockedBatch(ctx, key, "move queued message", func(b *Batch) error {
		if _, err := b.waiting(id); err != nil {
			return err
		}
		rows, err := b.due(endOfTime, maxQueueRows)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r pgdb.QueuedMessage) bool { return r.Attempts > 0 || r.ScheduledAt != nil })
		if !up {
			slices.Reverse(rows)
		}
		i := slices.IndexFunc(rows, func(r pgdb.QueuedMessage) bool { return r.ID == id })
		if i < 1 {
			return nil
		}
		moved = true
		rows[i].Position, rows[i-1].Position = rows[i-1].Position, rows[i].Position
		return errors.Join(b.changeQueued(rows[i]), b.changeQueued(rows[i-1]))
	})
	return moved, err
}

// TitleQueued sets a message's title, even if it has been sent by now. ErrNotFound means that it
// was removed.
func (s *Store) TitleQueued(ctx context.Context, key thread.Key, id, title string) error {
	if !thread.ValidID(id) {
		return fmt.Errorf("title queued message: %w", ErrNotFound)
	}
	if title = thread.CleanText(title); len(title) > maxQueuedTitle {
		return fmt.Errorf("title queued message: %w", Invalid("title: it has %d bytes, at most %d are allowed", len(title), maxQueuedTitle))
	}
	return s.fail("title queued message", s.changeThread(ctx, key, func(q queries) (int64, error) {
		return q.TitleQueued(ctx, pgdb.TitleQueuedParams{ID: id, ThreadID: key.Thread, Owner: key.Owner, Title: title})
	}))
}

// PauseQueue pauses the queue.
func (s *Store) PauseQueue(ctx context.Context, key thread.Key, p QueuePause) error {
	return s.lockedBatch(ctx, key, "pause queue", func(b *Batch) error { return b.pauseQueue(p) })
}

func (b *Batch) pauseQueue(p QueuePause) error {
	return b.q.PauseQueue(b.ctx, pgdb.PauseQueueParams{
		ThreadID: b.key.Thread, Owner: b.key.Owner, Reason: thread.CleanText(p.Reason), Message: thread.CleanText(p.Message), PausedAt: dbtype.At(orNow(p.At, b.s.now())),
	})
}

// ResumeQueue resumes the queue and reports whether it was paused. If its first message has failed,
// it may be retried at once.
func (s *Store) ResumeQueue(ctx context.Context, key thread.Key) (paused bool, err error) {
	err = s.lockedBatch(ctx, key, "resume queue", func(b *Batch) error {
		n, err := b.q.ResumeQueue(ctx, pgdb.ResumeQueueParams{ThreadID: key.Thread, Owner: key.Owner})
		paused = n > 0
		if err != nil || !paused {
			return err
		}
		row, found, err := b.head(endOfTime)
		if err != nil || !found || row.NotBefore == nil {
			return err
		}
		row.NotBefore = nil
		return b.changeQueued(row)
	})
	return paused, err
}

// lockedBatch is Batch with the thread's row locked, so that no instance changes what is read until
// the end.
func (s *Store) lockedBatch(ctx context.Context, key thread.Key, what string, fn func(*Batch) error) error {
	return s.Batch(ctx, key, func(b *Batch) error {
		return b.do(what, func() error {
			if err := b.lock(); err != nil {
				return err
			}
			return fn(b)
		})
	})
}

// waiting reads a row that the user may change. ErrNotFound means that the message is not in the
// queue, ErrConflict that it is being sent.
func (b *Batch) waiting(id string) (pgdb.QueuedMessage, error) {
	if !thread.ValidID(id) {
		return pgdb.QueuedMessage{}, ErrNotFound
	}
	row, err := b.q.GetQueued(b.ctx, pgdb.GetQueuedParams{ID: id, ThreadID: b.key.Thread, Owner: b.key.Owner})
	switch {
	case err != nil:
		return row, err
	case !QueueState(row.State).Waits():
		return row, ErrNotFound
	case leased(row, b.s.now()):
		return row, fmt.Errorf("%w: it is being sent", ErrConflict)
	}
	return row, nil
}

// leased reports whether somebody is sending the message.
func leased(row pgdb.QueuedMessage, at time.Time) bool {
	return row.State == string(QueueSending) && row.LeaseUntil != nil && !row.LeaseUntil.Before(at)
}

// head returns the row to send next, of those that are due by then.
func (b *Batch) head(dueBy time.Time) (row pgdb.QueuedMessage, found bool, err error) {
	rows, err := b.due(dueBy, 1)
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// due lists the rows that are not done and due by then, in the order of sending.
func (b *Batch) due(by time.Time, limit int64) ([]pgdb.QueuedMessage, error) {
	return b.q.ListQueued(b.ctx, pgdb.ListQueuedParams{
		ThreadID: b.key.Thread, Owner: b.key.Owner, DueBy: new(dbtype.At(by)), MaxRows: limit,
	})
}

func (b *Batch) changeQueued(r pgdb.QueuedMessage) error {
	_, err := b.q.ChangeQueued(b.ctx, pgdb.ChangeQueuedParams{
		ID: r.ID, ThreadID: b.key.Thread, Owner: b.key.Owner,
		State: r.State, Position: r.Position, Message: r.Message, Attempts: r.Attempts, LeaseUntil: r.LeaseUntil,
		Error: r.Error, SentAt: r.SentAt, MessageID: r.MessageID, Instance: r.Instance, NotBefore: r.NotBefore,
	})
	return err
}
