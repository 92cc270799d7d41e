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
	// mostPiece is the most rows that a transaction deletes: others write in between.
	// Pieces grow and shrink until one takes about pieceTime.
	mostPiece = 200
	pieceTime = 20 * time.Millisecond
	// eraseNow is how long DeleteThread erases what it has deleted, before it leaves
	// the rest to those who serve.
	eraseNow = 250 * time.Millisecond
	// expirePiece is how many threads Expire looks up at once.
	expirePiece = 100
)

// DeleteThread deletes the thread and everything in it. From then on it is gone for
// everybody, and its watches end with ErrNotFound. A short thread is erased from the
// tables when this returns; of a long one a process that serves erases the rest
// afterwards, also when this process ends. Of upstream legs that may still run the ids
// stay until they are hung up.
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
	// Whoever asked may go away; what has begun is finished. Others are told when a short thread is
	// erased, too, as whoever asked is.
	ctx = context.WithoutCancel(ctx)
	err = s.eraseSoon(ctx, key.Thread)
	s.tellOwner(ctx, EventThreadDeleted, key, threadGone{key.Thread})
	return s.fail("delete thread", err)
}

// eraseSoon erases a deleted thread: at once where nobody would do so afterwards.
func (s *Store) eraseSoon(ctx context.Context, thread string) error {
	serving, began := s.serving.Load(), time.Now()
	err := s.erase(ctx, thread, func(time.Duration) bool { return serving && time.Since(began) > eraseNow })
	if err == nil && !serving {
		err = s.eng.compact(ctx, false, never)
	}
	if err == nil {
		err = s.eng.scrub(ctx)
	}
	if serving {
		s.sweepSoon()
	}
	// What is left is gone for everybody, and the sweep goes on.
	if errors.Is(err, errMore) {
		return nil
	}
	return err
}

// errMore says that something is left to be erased.
var errMore = errors.New("more is to be erased")

// enough is asked after each piece of work, which took so long, whether to stop.
type enough func(took time.Duration) bool

func never(time.Duration) bool { return false }

// erasable is what a thread consists of, in the order in which it is erased, and how many
// rows to begin with: images are large.
var erasable = []struct {
	first int64
	erase func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error)
}{
	{20, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseMessages(ctx, p)
	}},
	{20, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseToolCalls(ctx, pgdb.EraseToolCallsParams(p))
	}},
	{20, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseResponses(ctx, pgdb.EraseResponsesParams(p))
	}},
	{20, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseCalls(ctx, pgdb.EraseCallsParams(p))
	}},
	{20, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseQueued(ctx, pgdb.EraseQueuedParams(p))
	}},
	{1, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseImages(ctx, pgdb.EraseImagesParams(p))
	}},
}

// erase deletes the rows of a thread that belongs to nobody, piece by piece. It is errMore
// when it was told to stop before the end.
func (s *Store) erase(ctx context.Context, thread string, stop enough) error {
	if err := s.write(ctx, func(q queries) error {
		_, err := q.EraseDrafts(ctx, pgdb.EraseDraftsParams{ThreadID: thread})
		return err
	}); err != nil {
		return err
	}
	for _, table := range erasable {
		for rows, more := table.first, true; more; {
			var began time.Time
			var erased int64
			if err := s.write(ctx, func(q queries) error {
				began = time.Now() // it has waited for others until now
				held, err := q.HoldErased(ctx, pgdb.HoldErasedParams{ID: thread, UpdatedAt: dbtype.At(began)})
				if err != nil || held == 0 { // another process was faster
					return err
				}
				erased, err = table.erase(ctx, q, pgdb.EraseMessagesParams{ThreadID: thread, MaxRows: rows})
				return err
			}); err != nil {
				return err
			}
			more = erased == rows
			took := time.Since(began)
			if rows = nextPiece(rows, took); more && stop(took) {
				return errMore
			}
		}
	}
	return s.write(ctx, func(q queries) error { return q.EraseThread(ctx, pgdb.EraseThreadParams{ID: thread}) })
}

// nextPiece is how much to do at once after so much took so long.
func nextPiece(size int64, took time.Duration) int64 {
	switch {
	case took > pieceTime:
		return max(size/2, 1)
	case took < pieceTime/2:
		return min(size*2, mostPiece)
	}
	return size
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
