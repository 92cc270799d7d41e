package persistence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

const (
	// firstPiece is how many rows the first transaction deletes, and mostPiece the most
	// of any: others write in between. SQLite's search index makes a row expensive, so
	// pieces grow and shrink until one takes about pieceTime.
	firstPiece, mostPiece = 20, 500
	pieceTime             = 20 * time.Millisecond
	// expirePiece is how many threads Expire looks up at once.
	expirePiece = 100
)

// DeleteThread erases the thread and everything in it. It is gone for everybody at
// once, and its watches end with ErrNotFound; then it is erased piece by piece. What
// a crash keeps from being erased Recover erases. Of upstream legs that may still
// run the ids stay until they are hung up.
func (s *Store) DeleteThread(ctx context.Context, key Key) error {
	err := s.changeThread(ctx, key, func(q queries) (int64, error) {
		if err := q.DeleteLegs(ctx, pgdb.DeleteLegsParams{ThreadID: key.Thread, Owner: key.Owner}); err != nil {
			return 0, err
		}
		return q.DisownThread(ctx, pgdb.DisownThreadParams{ID: key.Thread, Owner: key.Owner})
	})
	if err != nil {
		return s.fail("delete thread", err)
	}
	s.storedLess(key.Owner)
	s.hub.gone(key)
	s.eng.tell(note{Type: noteGone, Key: key})
	s.tellOwner(ctx, EventThreadDeleted, key, threadGone{key.Thread})
	// Whoever asked may go away; what has begun is finished.
	ctx = context.WithoutCancel(ctx)
	return s.fail("delete thread", errors.Join(s.erase(ctx, key.Thread), s.eng.erased(ctx)))
}

// erase deletes the rows of a thread that belongs to nobody.
func (s *Store) erase(ctx context.Context, thread string) error {
	if err := s.write(ctx, func(q queries) error {
		_, err := q.EraseDrafts(ctx, pgdb.EraseDraftsParams{ThreadID: thread})
		return err
	}); err != nil {
		return err
	}
	for _, piece := range []func(q queries, rows int64) (int64, error){
		func(q queries, rows int64) (int64, error) {
			return q.EraseMessages(ctx, pgdb.EraseMessagesParams{ThreadID: thread, MaxRows: rows})
		},
		func(q queries, rows int64) (int64, error) {
			return q.EraseToolCalls(ctx, pgdb.EraseToolCallsParams{ThreadID: thread, MaxRows: rows})
		},
		func(q queries, rows int64) (int64, error) {
			return q.EraseResponses(ctx, pgdb.EraseResponsesParams{ThreadID: thread, MaxRows: rows})
		},
	} {
		rows, erased := int64(firstPiece), int64(firstPiece)
		for erased == rows {
			var began time.Time
			if err := s.write(ctx, func(q queries) (err error) {
				began = time.Now() // it has waited for others until now
				erased, err = piece(q, rows)
				return err
			}); err != nil {
				return err
			}
			if erased == rows {
				rows = nextPiece(rows, time.Since(began))
				erased = rows
			}
		}
	}
	return s.write(ctx, func(q queries) error { return q.EraseThread(ctx, pgdb.EraseThreadParams{ID: thread}) })
}

// nextPiece is how many rows to delete after so many took so long.
func nextPiece(rows int64, took time.Duration) int64 {
	switch {
	case took > pieceTime:
		return max(rows/2, 1)
	case took < pieceTime/2:
		return min(rows*2, mostPiece)
	}
	return rows
}

// eraseLeft finishes what a crash has left.
func (s *Store) eraseLeft(ctx context.Context) error {
	left, err := s.eng.read().ListErased(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	for _, thread := range left {
		if err := s.erase(ctx, thread); err != nil {
			return err
		}
	}
	return s.eng.erased(ctx)
}

// Expire erases the threads of all owners in which nothing was said since a time,
// unless a call or a turn runs on them, and returns how many there were.
func (s *Store) Expire(ctx context.Context, before time.Time) (erased int, err error) {
	if y := before.UTC().Year(); y < 1 || y > 9999 {
		return 0, fmt.Errorf("expire threads: %w time", ErrInvalid)
	}
	for {
		rows, err := s.eng.read().ListExpired(ctx, pgdb.ListExpiredParams{Before: dbtype.At(before), MaxRows: expirePiece})
		if err != nil || len(rows) == 0 {
			return erased, s.fail("expire threads", err)
		}
		for _, r := range rows {
			switch err := s.DeleteThread(ctx, Key{Owner: r.Owner, Thread: r.ID}); {
			case err == nil:
				erased++
			case !errors.Is(err, ErrNotFound): // its owner was faster
				return erased, err
			}
			if err := ctx.Err(); err != nil {
				return erased, fmt.Errorf("expire threads: %w", err)
			}
		}
	}
}
