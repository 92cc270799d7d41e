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

// expirePiece is how many threads Expire lists at once.
const expirePiece = 100

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
		return n, errors.Join(err, q.EraseEvents(ctx, pgdb.EraseEventsParams{ThreadID: key.Thread}),
			q.EraseDeliveries(ctx, pgdb.EraseDeliveriesParams{ThreadID: &key.Thread}))
	})
	if err != nil {
		return s.fail("delete thread", err)
	}
	// Finish even if the caller gives up.
	return s.fail("delete thread", s.sweeper.eraseSoon(context.WithoutCancel(ctx), key.Thread))
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
