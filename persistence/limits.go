package persistence

import (
	"context"
	"fmt"
	"slices"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// CallsElsewhere counts the live calls of the owner on other instances.
func (s *Store) CallsElsewhere(ctx context.Context, owner string) (int, error) {
	if !s.shared {
		return 0, nil
	}
	live, err := s.eng.read().ListOwnersLiveCalls(ctx, pgdb.ListOwnersLiveCallsParams{Owner: owner})
	live = slices.DeleteFunc(live, func(c pgdb.ListOwnersLiveCallsRow) bool { return c.Instance == s.Instance() })
	return len(live), s.fail("count calls", err)
}

// LiveCalls returns the ids of the owner's live calls on all instances, by thread.
func (s *Store) LiveCalls(ctx context.Context, owner string) (map[string]string, error) {
	live, err := s.eng.read().ListOwnersLiveCalls(ctx, pgdb.ListOwnersLiveCallsParams{Owner: owner})
	byThread := make(map[string]string, len(live))
	for _, c := range live {
		byThread[c.ThreadID] = c.ID
	}
	return byThread, s.fail("list live calls", err)
}

// RoomForCall returns ErrQuota if the owner has at least that many live calls on other threads, on any
// instance; 0 means no limit. Until the transaction ends no other one can count them, so if it saves
// a new call, the limit holds. ended are calls whose end is not saved yet.
func (b *Batch) RoomForCall(limit int, ended ...string) error {
	if limit <= 0 {
		return b.tx.Err()
	}
	return b.do("count calls", func() error {
		if err := b.q.LockOwner(b.ctx, pgdb.LockOwnerParams{What: "calls", Owner: b.key.Owner}); err != nil {
			return err
		}
		live, err := b.q.ListOwnersLiveCalls(b.ctx, pgdb.ListOwnersLiveCallsParams{ThreadID: b.key.Thread, Owner: b.key.Owner})
		live = slices.DeleteFunc(live, func(c pgdb.ListOwnersLiveCallsRow) bool { return slices.Contains(ended, c.ID) })
		if err == nil && len(live) >= limit {
			err = fmt.Errorf("%w: there are %d live calls", ErrQuota, len(live))
		}
		return err
	})
}

// RoomForTurn is RoomForCall for text turns; ClaimTurn begins one.
func (b *Batch) RoomForTurn(limit int) error {
	if limit <= 0 {
		return b.tx.Err()
	}
	return b.do("count turns", func() error {
		if err := b.q.LockOwner(b.ctx, pgdb.LockOwnerParams{What: "turns", Owner: b.key.Owner}); err != nil {
			return err
		}
		n, err := b.q.CountOwnersTurns(b.ctx, pgdb.CountOwnersTurnsParams{Now: dbtype.At(b.s.now()), ThreadID: b.key.Thread, Owner: b.key.Owner})
		if err == nil && n >= int64(limit) {
			err = fmt.Errorf("%w: there are %d turns", ErrQuota, n)
		}
		return err
	})
}

// CheckThreads returns ErrQuota if the owner has at least that many threads; 0 means no limit.
func (s *Store) CheckThreads(ctx context.Context, owner string, limit int) error {
	if limit <= 0 {
		return nil
	}
	n, err := s.eng.read().CountThreads(ctx, pgdb.CountThreadsParams{Owner: owner, MaxRows: int64(limit)})
	if err == nil && n >= int64(limit) {
		err = fmt.Errorf("%w: there are %d threads", ErrQuota, n)
	}
	return s.fail("count threads", err)
}

// CheckStored returns ErrQuota if the owner's messages and images take more than that many bytes; 0
// means no limit. An answer in progress counts once it is finished.
func (s *Store) CheckStored(ctx context.Context, owner string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	stored, err := s.eng.read().StoredBytes(ctx, pgdb.StoredBytesParams{Owner: owner})
	if err == nil && stored > limit {
		err = fmt.Errorf("%w: %d of %d bytes are stored", ErrQuota, stored, limit)
	}
	return s.fail("add up what is stored", err)
}
