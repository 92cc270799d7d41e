package persistence

import (
	"context"
	"fmt"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// EnsureThread creates an empty thread with key's id unless the owner already has it. ErrNotFound
// means that another owner has it.
func (s *Store) EnsureThread(ctx context.Context, key thread.Key) (created bool, err error) {
	if err := checkKey(key); err != nil {
		return false, fmt.Errorf("ensure thread: %w", err)
	}
	for {
		created, err = s.ensureThread(ctx, key)
		if !database.IsMissing(err) || !s.sweeper.isDeleted(ctx, key.Thread) {
			break
		}
		// A deleted thread still has the id. Erase the rest of it, then try again.
		if err := s.sweeper.erase(ctx, key.Thread, neverStop); err != nil {
			return false, s.fail("ensure thread", err)
		}
	}
	return created, s.fail("ensure thread", err)
}

func (s *Store) ensureThread(ctx context.Context, key thread.Key) (created bool, err error) {
	err = s.writeEvents(ctx, func(q queries, t *transactionEvents) error {
		n, err := q.CreateThread(ctx,
			pgdb.CreateThreadParams{ID: key.Thread, Owner: key.Owner, CreatedAt: dbtype.At(s.now())})
		if err != nil {
			return err
		}
		if created = n > 0; created {
			t.tellOwner(EventThreadCreated, key)
			return nil
		}
		_, err = q.GetThread(ctx, key.Thread, key.Owner)
		return err
	})
	return created, err
}
