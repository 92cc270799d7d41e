package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/assistant"
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
		return q.DisownThread(ctx, key.Thread, key.Owner)
	})
}

// deleteThread is DeleteThread for a thread that disown finds and takes from its owner.
func (s *Store) deleteThread(ctx context.Context, key thread.Key, disown func(queries) (int64, error)) error {
	err := s.changeEvents(ctx, key, func(q queries, t *transactionEvents) (int64, error) {
		n, err := disown(q)
		t.tell(key, Event{Type: EventThreadDeleted, Data: json.RawMessage("{}")}) // ends its watches
		t.tellOwner(EventThreadDeleted, key)
		return n, errors.Join(err, numberAll(ctx, q), q.EraseEvents(ctx, key.Thread),
			q.EraseDeliveries(ctx, &key.Thread))
	})
	if err != nil {
		return s.fail("delete thread", err)
	}
	s.Recordings.Gone()
	// Finish even if the caller gives up.
	return s.fail("delete thread", s.sweeper.eraseSoon(context.WithoutCancel(ctx), key.Thread))
}

// numberAll gives all events their numbers: those that have none yet would get them after the erasure.
func numberAll(ctx context.Context, q queries) error {
	_, err := numberEvents(ctx, q)
	return err
}

// EraseEventsOf deletes what followers of an owner's threads have not read yet, and what processes ask of each other in
// the owner's name.
func (s *Store) EraseEventsOf(ctx context.Context, owner string) error {
	if !thread.ValidID(owner) {
		return fmt.Errorf("erase events: %w", ErrNotFound)
	}
	return s.fail("erase events", s.write(ctx, func(q queries) error {
		return errors.Join(numberAll(ctx, q), q.EraseEventsOf(ctx, owner), q.EraseCommandsOf(ctx, owner))
	}))
}

// Expire deletes the threads of all owners that nobody has used for so many days before now, except those with a live
// call or a running turn, and returns how many there were. With 0 days they are kept. The thread's assistant may say
// otherwise (assistant.Assistant.RetentionDays).
func (s *Store) Expire(ctx context.Context, now time.Time, days int) (erased int, err error) {
	if y := now.UTC().Year(); y < 1000 || y > 9999 || days < 0 || days > assistant.MaxRetentionDays {
		return 0, fmt.Errorf("expire threads: %w", Invalid("time"))
	}
	own, err := s.Assistants.Retaining(ctx)
	if err != nil {
		return 0, fmt.Errorf("expire threads: %w", err)
	}
	e := expiry{s: s, now: now, days: days, own: own}
	err = e.pass(ctx, "", days)
	for id, least := range own {
		if err == nil {
			err = e.pass(ctx, id, least)
		}
	}
	return e.erased, s.fail("expire threads", err)
}

// expiry is one run of Expire.
type expiry struct {
	s      *Store
	now    time.Time
	days   int
	own    map[string]int // the assistants that say how long, see assistants.Store.Retaining
	erased int
}

// pass deletes what has expired of an assistant's threads, or of all, of which nobody is kept for fewer days.
func (e *expiry) pass(ctx context.Context, assistantID string, least int) error {
	if least == 0 {
		return nil
	}
	list := pgdb.ListExpiredParams{
		Before: e.before(least), AssistantID: assistantID, After: dbtype.At(time.Time{}), MaxRows: expirePiece,
	}
	for {
		rows, err := e.s.eng.read().ListExpired(ctx, list)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			if err := e.thread(ctx, r); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			list.After, list.AfterID = r.UpdatedAt, r.ID
		}
	}
}

// thread deletes a thread if it has expired.
func (e *expiry) thread(ctx context.Context, r pgdb.ListExpiredRow) error {
	days := e.days
	if _, own := e.own[r.AssistantID]; own {
		a, err := e.s.Assistants.Get(ctx, r.Owner, assistant.Ref{Owner: r.AssistantOwner, ID: r.AssistantID})
		if err != nil && !errors.Is(err, ErrNotFound) { // one that was deleted says nothing
			return err
		}
		days = a.Retention(e.days)
	}
	before := e.before(days)
	if days == 0 || !r.UpdatedAt.Before(before.Time) {
		return nil
	}
	err := e.s.deleteThread(ctx, thread.Key{Owner: r.Owner, Thread: r.ID}, func(q queries) (int64, error) {
		return q.ExpireThread(ctx, r.ID, r.Owner, before)
	})
	if errors.Is(err, ErrNotFound) { // its owner was faster, by deleting or by using it
		return nil
	}
	if err == nil {
		e.erased++
	}
	return err
}

func (e *expiry) before(days int) dbtype.Time { return dbtype.At(e.now.AddDate(0, 0, -days)) }
