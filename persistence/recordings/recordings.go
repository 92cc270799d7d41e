// Package recordings keeps what is known of the recordings of calls, whose files are elsewhere.
package recordings

import (
	"context"
	"fmt"
	"time"

	"voicebridge/persistence/hooked"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Recording is what is kept of the sound of an ended call.
type Recording struct {
	CallID    string
	StartedAt time.Time
	Duration  time.Duration // in milliseconds
	Bytes     int64         // of both tracks
}

// Store keeps them in the database. It is safe for concurrent use.
type Store struct {
	db   database.DB
	gone chan struct{}
}

// New returns the Store of a database.
func New(db database.DB) *Store { return &Store{db, make(chan struct{}, 1)} }

// Gone notes that a thread was deleted: Over may list its recordings.
func (s *Store) Gone() {
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// Woken returns the channel that gets a value when a thread was deleted by this process.
func (s *Store) Woken() <-chan struct{} { return s.gone }

// Save records the recording of a call. ErrNotFound means that the owner has no such call.
func (s *Store) Save(ctx context.Context, owner string, r Recording) error {
	const what = "save recording"
	if !thread.ValidID(owner) || !thread.ValidID(r.CallID) {
		return fmt.Errorf(what+": %w", database.ErrNotFound)
	}
	var n int64
	err := s.db.Write(ctx, func(q database.Queries) (err error) {
		n, err = q.SaveRecording(ctx, pgdb.SaveRecordingParams{
			CallID: r.CallID, Owner: owner, StartedAt: dbtype.At(r.StartedAt), DurationMs: r.Duration.Milliseconds(),
			Bytes: r.Bytes,
		})
		if err != nil || n == 0 {
			return err
		}
		return s.tell(ctx, q, owner, r)
	})
	if err == nil && n == 0 {
		return fmt.Errorf(what+": %w", database.ErrNotFound)
	}
	return s.db.Fail(what, err)
}

// tell tells hooks that a recording is there.
func (s *Store) tell(ctx context.Context, q database.Queries, owner string, r Recording) error {
	c, err := q.GetCall(ctx, r.CallID, owner)
	if err != nil {
		return err
	}
	tx := database.NewTx(ctx, s.db, q, thread.Key{Owner: owner, Thread: c.ThreadID})
	data := func() (map[string]any, error) {
		return map[string]any{"call_id": r.CallID, "duration_seconds": r.Duration.Seconds()}, nil
	}
	_, err = hooked.In(tx).Tell(hooked.Event{Type: hooked.RecordingReady, About: r.CallID, Data: data})
	return err
}

// Recording reads that of a call of the owner.
func (s *Store) Recording(ctx context.Context, owner, callID string) (Recording, error) {
	const what = "read recording"
	if !thread.ValidID(owner) || !thread.ValidID(callID) {
		return Recording{}, fmt.Errorf(what+": %w", database.ErrNotFound)
	}
	row, err := s.db.Read().GetRecording(ctx, callID, owner)
	return Recording{
		CallID: row.CallID, StartedAt: row.StartedAt.Time, Duration: time.Duration(row.DurationMs) * time.Millisecond,
		Bytes: row.Bytes,
	}, s.db.Fail(what, err)
}

// maxOver is how many recordings Over returns at once.
const maxOver = 100

// Over lists calls whose recordings are to be deleted, the oldest first: those that were deleted themselves, and those
// whose recording began before a time.
func (s *Store) Over(ctx context.Context, before time.Time) ([]string, error) {
	ids, err := s.db.Read().ListRecordingsOver(ctx, dbtype.At(before), maxOver)
	return ids, s.db.Fail("list recordings", err)
}

// Delete forgets a recording whose files are deleted.
func (s *Store) Delete(ctx context.Context, callID string) error {
	return s.db.Fail("delete recording", s.db.Write(ctx, func(q database.Queries) error {
		return q.DeleteRecording(ctx, callID)
	}))
}

// Of lists the recordings of an owner, the oldest first.
func (s *Store) Of(ctx context.Context, owner string) ([]Recording, error) {
	if !thread.ValidID(owner) {
		return nil, fmt.Errorf("list recordings: %w", database.ErrNotFound)
	}
	rows, err := s.db.Read().ListRecordingsOf(ctx, owner)
	list, err := database.Rows(rows, err, func(r pgdb.Recording) Recording {
		return Recording{
			CallID: r.CallID, StartedAt: r.StartedAt.Time, Duration: time.Duration(r.DurationMs) * time.Millisecond,
			Bytes: r.Bytes,
		}
	})
	return list, s.db.Fail("list recordings", err)
}
