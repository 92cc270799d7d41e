package persistence

import (
	"cmp"
	"context"
	"errors"
	"time"
)

const (
	// sweepAgain is the pause before another try.
	sweepAgain = 10 * time.Second
	// compactShare limits rewriting the search index to one part in this many of the time.
	compactShare = 20
)

// sweepSoon wakes the sweep.
func (s *Store) sweepSoon() {
	select {
	case s.unswept <- struct{}{}:
	default: // it is awake already
	}
}

// sweep erases what is left of deleted threads, including those of earlier processes, until ctx
// ends.
func (s *Store) sweep(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	var rested time.Time // when the index may be rewritten
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unswept:
		case <-again.C:
		}
		err := s.eraseLeft(ctx)
		if rest := time.Until(rested); rest > 0 {
			again.Reset(rest)
		} else if err == nil {
			began := time.Now()
			err = s.eng.compact(ctx, false, halfOf(ctx))
			rested = time.Now().Add(compactShare * time.Since(began))
		}
		if err == nil {
			err = s.eng.scrub(ctx)
		}
		if err != nil && ctx.Err() == nil {
			again.Reset(sweepAgain)
			if !errors.Is(err, ErrFenced) && !errors.Is(err, errMore) {
				s.log.Warn("deleted threads are not erased yet", "error", err)
			}
		}
	}
}

// halfOf spends half of the time: it pauses after each piece for as long as the piece took, and stops
// when ctx ends.
func halfOf(ctx context.Context) stopFunc {
	return func(took time.Duration) bool {
		select {
		case <-ctx.Done():
			return true
		case <-time.After(took):
			return false
		}
	}
}

// eraseLeft erases the threads without an owner.
func (s *Store) eraseLeft(ctx context.Context) error {
	for {
		left, err := s.eng.read().ListErased(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, thread := range left {
			var failed error
			err := s.erase(ctx, thread, func(took time.Duration) bool {
				failed = s.eng.compact(ctx, true, halfOf(ctx))
				return failed != nil || halfOf(ctx)(took)
			})
			if err := cmp.Or(failed, err); err != nil {
				return err
			}
		}
	}
}
