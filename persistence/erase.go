package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// maxPiece is the largest number of rows deleted in one transaction, so that others can write in
	// between. Pieces grow and shrink until one takes about pieceTime.
	maxPiece  = 200
	pieceTime = 20 * time.Millisecond
	// eraseNow is how long DeleteThread spends on erasing before it leaves the rest to a serving
	// process.
	eraseNow = 250 * time.Millisecond
	// expirePiece is how many threads Expire lists at once.
	expirePiece = 100
)

// DeleteThread deletes the thread and everything in it. From then on nobody can read it, and its
// watches end with ErrNotFound. The rows of a short thread have been erased when this returns; the
// rest of a long one is erased afterwards by a serving process, even if this process ends. The ids
// of upstream legs that may still be running are kept until those are hung up.
func (s *Store) DeleteThread(ctx context.Context, key thread.Key) error {
	return s.deleteThread(ctx, key, func(q queries) (int64, error) {
		return q.DisownThread(ctx, pgdb.DisownThreadParams{ID: key.Thread, Owner: key.Owner})
	})
}

// deleteThread is DeleteThread for a thread that disown finds and takes from its owner.
func (s *Store) deleteThread(ctx context.Context, key thread.Key, disown func(queries) (int64, error)) error {
	err := s.changeTold(ctx, key, func(q queries, t *told) (int64, error) {
		n, err := disown(q)
		t.tell(key, Event{Type: EventThreadDeleted, Data: json.RawMessage("{}")}) // ends its watches
		t.tellOwner(EventThreadDeleted, key)
		return n, errors.Join(err, q.EraseEvents(ctx, pgdb.EraseEventsParams{ThreadID: key.Thread}))
	})
	if err != nil {
		return s.fail("delete thread", err)
	}
	// Finish even if the caller gives up.
	return s.fail("delete thread", s.eraseSoon(context.WithoutCancel(ctx), key.Thread))
}

// eraseSoon erases a deleted thread: for a short time if this process serves and can go on later,
// else all of it.
func (s *Store) eraseSoon(ctx context.Context, thread string) error {
	serving, began := s.Cluster.Serving(), time.Now()
	err := s.erase(ctx, thread, func(time.Duration) bool { return serving && time.Since(began) > eraseNow })
	if err == nil && !serving {
		err = s.eng.compact(ctx, false, neverStop)
	}
	if err == nil {
		err = s.eng.scrub(ctx)
	}
	if serving {
		s.sweepSoon()
	}
	// Nobody can read what is left, and the sweep erases it.
	if serving || errors.Is(err, errMore) {
		return nil
	}
	return err
}

// errMore means that something is left to be erased.
var errMore = errors.New("not everything is erased yet")

// erasable lists the large parts of a thread in the order in which they are erased, with the number of
// rows in the first piece and in the smallest: images are large. On a busy machine, where each
// transaction waits for a processor, pieces of other rows would else shrink to one.
var erasable = []struct {
	least int64
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
	{1, func(ctx context.Context, q queries, p pgdb.EraseMessagesParams) (int64, error) {
		return q.EraseImages(ctx, pgdb.EraseImagesParams(p))
	}},
}

// erase deletes the rows of a thread without an owner, piece by piece. It returns errMore if it was
// stopped before the end.
func (s *Store) erase(ctx context.Context, thread string, stop stopFunc) error {
	if err := s.write(ctx, func(q queries) error {
		_, err := q.EraseDrafts(ctx, pgdb.EraseDraftsParams{ThreadID: thread})
		return err
	}); err != nil {
		return err
	}
	for _, table := range erasable {
		for rows, more := table.least, true; more; {
			var began time.Time
			var erased int64
			if err := s.write(ctx, func(q queries) error {
				began = time.Now() // not counting the wait for other writers
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
			if rows = max(nextPiece(rows, took), table.least); more && stop(took) {
				return errMore
			}
		}
	}
	return s.write(ctx, func(q queries) error {
		// What was hung up in the moment of the deletion is saved by now.
		if err := q.EraseLegs(ctx, pgdb.EraseLegsParams{ThreadID: thread}); err != nil {
			return err
		}
		return q.EraseThread(ctx, pgdb.EraseThreadParams{ID: thread})
	})
}

// nextPiece returns the size of the next piece, given how long the last one took.
func nextPiece(size int64, took time.Duration) int64 {
	switch {
	case took > pieceTime:
		return max(size/2, 1)
	case took < pieceTime/2:
		return min(size*2, maxPiece)
	}
	return size
}

// Expire deletes the threads of all owners that have not been used since before, except those with
// a live call or a running turn, and returns how many there were.
func (s *Store) Expire(ctx context.Context, before time.Time) (erased int, err error) {
	if y := before.UTC().Year(); y < 1 || y > 9999 {
		return 0, fmt.Errorf("expire threads: %w", Invalid("time"))
	}
	for {
		rows, err := s.eng.read().ListExpired(ctx, pgdb.ListExpiredParams{Before: dbtype.At(before), MaxRows: expirePiece})
		if err != nil || len(rows) == 0 {
			return erased, s.fail("expire threads", err)
		}
		for _, r := range rows {
			err := s.deleteThread(ctx, thread.Key{Owner: r.Owner, Thread: r.ID}, func(q queries) (int64, error) {
				return q.ExpireThread(ctx, pgdb.ExpireThreadParams{ID: r.ID, Owner: r.Owner, Before: dbtype.At(before)})
			})
			switch {
			case err == nil:
				erased++
			case !errors.Is(err, ErrNotFound): // not found: its owner was faster, by deleting or by using it
				return erased, err
			}
			if err := ctx.Err(); err != nil {
				return erased, fmt.Errorf("expire threads: %w", err)
			}
		}
	}
}
