package queued

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Limits on a queued message.
const (
	MaxBytes    = 256 << 10 // of its text
	MaxImageIDs = 10
	// maxQueueRows limits how many messages of one queue are listed.
	maxQueueRows = 10_000
	// maxQueuedTitle limits a message's title, in bytes.
	maxQueuedTitle = 1000
)

// endOfTime is later than any time for which a message can be scheduled.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// ErrFull means that a queue holds as many messages as it may.
var ErrFull = errors.New("queue is full")

// Pause says why a queue is paused.
type Pause struct {
	Reason  string // for programs
	Message string // for people
	At      time.Time
}

// Add adds a message to the end of the thread's queue unless that already holds limit messages
// (ErrFull); 0 means no limit. If a message of the thread has the same IdempotencyKey, nothing
// changes and that message is returned, with added false; ErrConflict means that its text differs.
func (s *Store) Add(ctx context.Context, key thread.Key, m Message, limit int) (saved Message, added bool, err error) {
	if err := m.validate(); err != nil {
		return Message{}, false, fmt.Errorf("queue message: %w", err)
	}
	err = s.locked(ctx, key, "queue message", func(q Tx) error {
		if m.IdempotencyKey != "" {
			row, err := q.tx.Q.GetQueuedByKey(ctx, &m.IdempotencyKey, key.Thread, key.Owner)
			if !database.IsMissing(err) {
				if saved, err = fromRow(row, err); err == nil && saved.Text != thread.CleanText(m.Text) {
					err = fmt.Errorf("%w: the idempotency key belongs to another message", database.ErrConflict)
				}
				return err
			}
		}
		n, err := q.tx.Q.CountQueued(ctx, key.Thread, key.Owner)
		if err != nil {
			return err
		}
		if limit > 0 && n >= int64(limit) {
			return ErrFull
		}
		row, err := toRow(key, m, s.db.Now())
		if err != nil {
			return err
		}
		added = true
		saved, err = fromRow(q.tx.Q.InsertQueued(ctx, row))
		return err
	})
	if err != nil {
		return Message{}, false, err
	}
	return saved, added, nil
}

func (m Message) validate() error {
	switch {
	case strings.TrimSpace(thread.CleanText(m.Text)) == "":
		return database.Invalid("message: it is empty")
	case len(m.Text) > MaxBytes:
		return database.Invalid("message: it has %d bytes, at most %d are allowed", len(m.Text), MaxBytes)
	case len(m.ImageIDs) > MaxImageIDs:
		return database.Invalid("image_ids: there are %d, at most %d are allowed", len(m.ImageIDs), MaxImageIDs)
	case m.ScheduledAt != nil && (m.ScheduledAt.UTC().Year() < 1 || m.ScheduledAt.After(endOfTime)):
		return database.Invalid("scheduled_at: the year %d", m.ScheduledAt.Year())
	}
	for _, id := range append([]string{m.ClientID, m.IdempotencyKey}, m.ImageIDs...) {
		if id != "" && !thread.ValidID(id) {
			return database.Invalid("client_id, idempotency_key or image_ids: an id is not 1 to %d bytes of text",
				thread.MaxIDBytes)
		}
	}
	if slices.Contains(m.ImageIDs, "") {
		return database.Invalid("image_ids: an id is empty")
	}
	return nil
}

// List lists what waits on the thread, in the order of sending, and why the queue is paused, if it
// is.
func (s *Store) List(ctx context.Context, key thread.Key) ([]Message, *Pause, error) {
	if err := database.CheckKey(key); err != nil {
		return nil, nil, fmt.Errorf("list queue: %w", err)
	}
	q := s.db.Read()
	if _, err := q.GetThread(ctx, key.Thread, key.Owner); err != nil {
		return nil, nil, s.db.Fail("list queue", err)
	}
	rows, err := q.ListQueued(ctx, pgdb.ListQueuedParams{
		ThreadID: key.Thread, Owner: key.Owner, DueBy: new(dbtype.At(endOfTime)), MaxRows: maxQueueRows,
	})
	if err != nil {
		return nil, nil, s.db.Fail("list queue", err)
	}
	list := make([]Message, 0, len(rows))
	for _, row := range rows {
		m, err := fromRow(row, nil)
		if err != nil {
			return nil, nil, err
		}
		if m.State.Waits() {
			list = append(list, m)
		}
	}
	pause, err := pauseOf(ctx, q, key)
	if err != nil {
		return nil, nil, s.db.Fail("list queue", err)
	}
	return list, pause, nil
}

// PauseOf says why the thread's queue is paused; nil if it is not.
func (s *Store) PauseOf(ctx context.Context, key thread.Key) (*Pause, error) {
	pause, err := pauseOf(ctx, s.db.Read(), key)
	return pause, s.db.Fail("read queue", err)
}

func pauseOf(ctx context.Context, q database.Queries, key thread.Key) (*Pause, error) {
	row, err := q.GetQueuePause(ctx, key.Thread, key.Owner)
	if database.IsMissing(err) {
		return nil, nil //nolint:nilnil // it is not paused
	}
	if err != nil {
		return nil, err
	}
	return &Pause{Reason: row.Reason, Message: row.Message, At: row.PausedAt.Time}, nil
}

// Length returns how many messages wait on the thread.
func (s *Store) Length(ctx context.Context, key thread.Key) (int, error) {
	if err := database.CheckKey(key); err != nil {
		return 0, fmt.Errorf("count queue: %w", err)
	}
	n, err := s.db.Read().CountQueued(ctx, key.Thread, key.Owner)
	return int(n), s.db.Fail("count queue", err)
}

// Count counts messages of all owners that wait or are being sent, for operators.
func (s *Store) Count(ctx context.Context) (int64, error) {
	n, err := s.db.Read().CountAllUnsent(ctx)
	return n, s.db.Fail("count queued messages", err)
}

// Message reads a waiting or sent message.
func (s *Store) Message(ctx context.Context, key thread.Key, id string) (Message, error) {
	if err := database.CheckKey(key); err != nil || !thread.ValidID(id) {
		return Message{}, fmt.Errorf("read queued message: %w", database.ErrNotFound)
	}
	m, err := fromRow(s.db.Read().GetQueued(ctx, id, key.Thread, key.Owner))
	return m, s.db.Fail("read queued message", err)
}

// Remove removes a waiting message and returns it. ErrConflict means that it is being sent.
func (s *Store) Remove(ctx context.Context, key thread.Key, id string) (m Message, err error) {
	err = s.locked(ctx, key, "remove queued message", func(q Tx) error {
		row, err := q.waiting(id)
		if err != nil {
			return err
		}
		_, err = q.tx.Q.DeleteQueued(ctx, id, key.Thread, key.Owner)
		m, err = fromRow(row, err)
		return err
	})
	return m, err
}

// Clear removes all waiting messages and returns how many there were. A message that is being
// sent stays.
func (s *Store) Clear(ctx context.Context, key thread.Key) (removed int, err error) {
	err = s.locked(ctx, key, "clear queue", func(q Tx) error {
		n, err := q.tx.Q.ClearQueued(ctx, key.Thread, key.Owner)
		removed = int(n)
		return err
	})
	return removed, err
}

// Edit changes the text of a waiting message and removes its title. ErrConflict means that it
// is being sent.
func (s *Store) Edit(ctx context.Context, key thread.Key, id, text string) (m Message, err error) {
	if err := (Message{Text: text}).validate(); err != nil {
		return Message{}, fmt.Errorf("edit queued message: %w", err)
	}
	err = s.locked(ctx, key, "edit queued message", func(q Tx) error {
		row, err := q.waiting(id)
		if err != nil {
			return err
		}
		row.Message, row.Error = thread.CleanText(text), ""
		row.NotBefore = nil
		// the old text is in the thread, or in a spool: this is another message
		if row.SentAt != nil || row.Attempts > 0 {
			row.SentAt, row.MessageID = nil, database.NewID()
		}
		if _, err := q.tx.Q.TitleQueued(ctx,
			pgdb.TitleQueuedParams{ID: id, ThreadID: key.Thread, Owner: key.Owner}); err != nil {
			return err
		}
		row.Title = ""
		m, err = fromRow(row, q.change(row))
		return err
	})
	return m, err
}

// Move swaps a message with the one before it (up) or after it. It returns false if there is
// none: messages that have been tried or are scheduled cannot be reordered.
func (s *Store) Move(ctx context.Context, key thread.Key, id string, up bool) (moved bool, err error) {
	err = s.locked(ctx, key, "move queued message", func(q Tx) error {
		if _, err := q.waiting(id); err != nil {
			return err
		}
		rows, err := q.due(endOfTime, maxQueueRows)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows,
			func(r pgdb.QueuedMessage) bool { return r.Attempts > 0 || r.ScheduledAt != nil })
		if !up {
			slices.Reverse(rows)
		}
		i := slices.IndexFunc(rows, func(r pgdb.QueuedMessage) bool { return r.ID == id })
		if i < 1 {
			return nil
		}
		moved = true
		rows[i].Position, rows[i-1].Position = rows[i-1].Position, rows[i].Position
		return errors.Join(q.change(rows[i]), q.change(rows[i-1]))
	})
	return moved, err
}

// SetTitle sets a message's title, even if it has been sent by now. ErrNotFound means that it
// was removed.
func (s *Store) SetTitle(ctx context.Context, key thread.Key, id, title string) error {
	if !thread.ValidID(id) {
		return fmt.Errorf("title queued message: %w", database.ErrNotFound)
	}
	if title = thread.CleanText(title); len(title) > maxQueuedTitle {
		return fmt.Errorf("title queued message: %w",
			database.Invalid("title: it has %d bytes, at most %d are allowed", len(title), maxQueuedTitle))
	}
	return s.db.Fail("title queued message",
		database.ChangeOne(ctx, s.db, key, func(q database.Queries) (int64, error) {
			return q.TitleQueued(ctx,
				pgdb.TitleQueuedParams{ID: id, ThreadID: key.Thread, Owner: key.Owner, Title: title})
		}))
}

// Pause pauses the queue.
func (s *Store) Pause(ctx context.Context, key thread.Key, p Pause) error {
	return s.locked(ctx, key, "pause queue", func(q Tx) error { return q.pause(p) })
}

func (q Tx) pause(p Pause) error {
	return q.tx.Q.PauseQueue(q.tx.Ctx, pgdb.PauseQueueParams{
		ThreadID: q.tx.Key.Thread, Owner: q.tx.Key.Owner, Reason: thread.CleanText(p.Reason),
		Message: thread.CleanText(p.Message), PausedAt: dbtype.At(database.OrNow(p.At, q.tx.Now())),
	})
}

// Resume resumes the queue and reports whether it was paused. If its first message has failed,
// it may be retried at once.
func (s *Store) Resume(ctx context.Context, key thread.Key) (paused bool, err error) {
	err = s.locked(ctx, key, "resume queue", func(q Tx) error {
		n, err := q.tx.Q.ResumeQueue(ctx, key.Thread, key.Owner)
		paused = n > 0
		if err != nil || !paused {
			return err
		}
		row, found, err := q.head(endOfTime)
		if err != nil || !found || row.NotBefore == nil {
			return err
		}
		row.NotBefore = nil
		return q.change(row)
	})
	return paused, err
}

// waiting reads a row that the user may change. ErrNotFound means that the message is not in the
// queue, ErrConflict that it is being sent.
func (q Tx) waiting(id string) (pgdb.QueuedMessage, error) {
	row, err := q.queued(id)
	if err == nil && row.State == string(Sending) {
		err = fmt.Errorf("%w: it is being sent", database.ErrConflict)
	}
	return row, err
}

// queued reads a row that is in the queue, or being sent.
func (q Tx) queued(id string) (pgdb.QueuedMessage, error) {
	if !thread.ValidID(id) {
		return pgdb.QueuedMessage{}, database.ErrNotFound
	}
	row, err := q.tx.Q.GetQueued(q.tx.Ctx, id, q.tx.Key.Thread, q.tx.Key.Owner)
	if err == nil && !State(row.State).Waits() {
		err = database.ErrNotFound
	}
	return row, err
}

// head returns the row to send next, of those that are due by then.
func (q Tx) head(dueBy time.Time) (row pgdb.QueuedMessage, found bool, err error) {
	rows, err := q.due(dueBy, 1)
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// due lists the rows that are not done and due by then, in the order of sending.
func (q Tx) due(by time.Time, limit int64) ([]pgdb.QueuedMessage, error) {
	return q.tx.Q.ListQueued(q.tx.Ctx, pgdb.ListQueuedParams{
		ThreadID: q.tx.Key.Thread, Owner: q.tx.Key.Owner, DueBy: new(dbtype.At(by)), MaxRows: limit,
	})
}

func (q Tx) change(r pgdb.QueuedMessage) error {
	_, err := q.tx.Q.ChangeQueued(q.tx.Ctx, pgdb.ChangeQueuedParams{
		ID: r.ID, ThreadID: q.tx.Key.Thread, Owner: q.tx.Key.Owner,
		State: r.State, Position: r.Position, Message: r.Message, Attempts: r.Attempts,
		Error: r.Error, SentAt: r.SentAt, MessageID: r.MessageID, Instance: r.Instance, NotBefore: r.NotBefore,
	})
	return err
}
