package records

import (
	"context"
	"fmt"
	"slices"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/pgdb"
)

// LiveCalls returns the ids of the owner's live calls on all instances, by thread.
func (s *Store) LiveCalls(ctx context.Context, owner string) (map[string]string, error) {
	live, err := s.db.Read().ListOwnersLiveCalls(ctx, "", owner)
	byThread := make(map[string]string, len(live))
	for _, c := range live {
		byThread[c.ThreadID] = c.ID
	}
	return byThread, s.db.Fail("list live calls", err)
}

// RoomForCall returns ErrQuota if the owner has at least that many live calls on other threads, on any
// instance; 0 means no limit. Until the transaction ends no other one can count them, so if it saves
// a new call, the limit holds. ended are calls whose end is not saved yet.
func (w Tx) RoomForCall(limit int, ended ...string) error {
	if limit <= 0 {
		return w.tx.Err()
	}
	return w.tx.Do("count calls", func() error {
		if err := w.tx.Q.LockOwner(w.tx.Ctx, "calls", w.tx.Key.Owner); err != nil {
			return err
		}
		live, err := w.tx.Q.ListOwnersLiveCalls(w.tx.Ctx, w.tx.Key.Thread, w.tx.Key.Owner)
		live = slices.DeleteFunc(live, func(c pgdb.ListOwnersLiveCallsRow) bool { return slices.Contains(ended, c.ID) })
		if err == nil && len(live) >= limit {
			err = fmt.Errorf("%w: there are %d live calls", database.ErrQuota, len(live))
		}
		return err
	})
}

// RoomForTurn is RoomForCall for text turns; Batch.ClaimTurn begins one.
func (w Tx) RoomForTurn(limit int) error {
	if limit <= 0 {
		return w.tx.Err()
	}
	return w.tx.Do("count turns", func() error {
		if err := w.tx.Q.LockOwner(w.tx.Ctx, "turns", w.tx.Key.Owner); err != nil {
			return err
		}
		n, err := w.tx.Q.CountOwnersTurns(w.tx.Ctx, w.tx.Key.Thread, w.tx.Key.Owner)
		if err == nil && n >= int64(limit) {
			err = fmt.Errorf("%w: there are %d turns", database.ErrQuota, n)
		}
		return err
	})
}

// CheckThreads returns ErrQuota if the owner has at least that many threads; 0 means no limit.
func (s *Store) CheckThreads(ctx context.Context, owner string, limit int) error {
	if limit <= 0 {
		return nil
	}
	n, err := s.db.Read().CountThreads(ctx, owner, int64(limit))
	if err == nil && n >= int64(limit) {
		err = fmt.Errorf("%w: there are %d threads", database.ErrQuota, n)
	}
	return s.db.Fail("count threads", err)
}

// CheckStored returns ErrQuota if the owner's messages, images and what is posted to the owner's hooks take more than
// that many bytes; 0 means no limit. An answer in progress counts once it is finished.
func (s *Store) CheckStored(ctx context.Context, owner string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	stored, err := s.db.Read().StoredBytes(ctx, owner)
	if err == nil && stored > limit {
		err = fmt.Errorf("%w: %d of %d bytes are stored", database.ErrQuota, stored, limit)
	}
	return s.db.Fail("add up what is stored", err)
}
