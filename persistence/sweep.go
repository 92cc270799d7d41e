package persistence

import (
	"cmp"
	"context"
	"errors"
	"time"

	"voicebridge/persistence/internal/dbtype"
)

const (
	// sweepAgain is the pause before another try.
	sweepAgain = 10 * time.Second
	// compactShare limits rewriting the search index to one part in this many of the time.
	compactShare = 20
	// maxPiece is the largest number of rows deleted in one transaction, so that others can write in
	// between. Pieces grow and shrink until one takes about pieceTime.
	maxPiece  = 200
	pieceTime = 20 * time.Millisecond
	// eraseNow is how long DeleteThread spends on erasing before it leaves the rest to a serving
	// process.
	eraseNow = 250 * time.Millisecond
)

// soon wakes the sweep.
func (w sweeper) soon() { signal(w.wake) }

// run erases what is left of deleted threads, including those of earlier processes, until ctx
// ends.
func (w sweeper) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	var rested time.Time // when the index may be rewritten
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-again.C:
		}
		err := w.eraseLeft(ctx)
		if rest := time.Until(rested); rest > 0 {
			again.Reset(rest)
		} else if err == nil {
			began := time.Now()
			err = w.s.eng.compact(ctx, false, halfOf(ctx))
			rested = time.Now().Add(compactShare * time.Since(began))
		}
		if err == nil {
			err = w.s.eng.scrub(ctx)
		}
		if err != nil && ctx.Err() == nil {
			again.Reset(sweepAgain)
			if !errors.Is(err, ErrFenced) && !errors.Is(err, errMore) {
				w.s.log.Warn("deleted threads are not erased yet", "error", err)
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
func (w sweeper) eraseLeft(ctx context.Context) error {
	for {
		left, err := w.s.eng.read().ListErased(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, thread := range left {
			var failed error
			err := w.erase(ctx, thread, func(took time.Duration) bool {
				failed = w.s.eng.compact(ctx, true, halfOf(ctx))
				return failed != nil || halfOf(ctx)(took)
			})
			if err := cmp.Or(failed, err); err != nil {
				return err
			}
		}
	}
}

// eraseSoon erases a deleted thread: for a short time if this process serves and can go on later,
// else all of it.
func (w sweeper) eraseSoon(ctx context.Context, thread string) error {
	serving, began := w.s.Cluster.Serving(), time.Now()
	err := w.erase(ctx, thread, func(time.Duration) bool { return serving && time.Since(began) > eraseNow })
	if err == nil && !serving {
		err = w.s.eng.compact(ctx, false, neverStop)
	}
	if err == nil {
		err = w.s.eng.scrub(ctx)
	}
	if serving {
		w.soon()
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
	erase func(q queries, ctx context.Context, thread string, rows int64) (int64, error)
}{
	{20, queries.EraseMessages},
	{20, queries.EraseToolCalls},
	{20, queries.EraseResponses},
	{1, queries.EraseImages},
}

// erase deletes the rows of a thread without an owner, piece by piece. It returns errMore if it was
// stopped before the end.
func (w sweeper) erase(ctx context.Context, thread string, stop stopFunc) error {
	if err := w.s.write(ctx, func(q queries) error {
		_, err := q.EraseDrafts(ctx, thread)
		return err
	}); err != nil {
		return err
	}
	for _, table := range erasable {
		for rows, more := table.least, true; more; {
			var began time.Time
			var erased int64
			if err := w.s.write(ctx, func(q queries) error {
				began = time.Now() // not counting the wait for other writers
				pending, err := q.HoldErased(ctx, dbtype.At(began), thread)
				if err != nil || pending == 0 { // another process was faster
					return err
				}
				erased, err = table.erase(q, ctx, thread, rows)
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
	return w.s.write(ctx, func(q queries) error {
		// What was hung up in the moment of the deletion is saved by now.
		if err := q.EraseLegs(ctx, thread); err != nil {
			return err
		}
		return q.EraseThread(ctx, thread)
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

// isDeleted reports whether the id belongs to a deleted thread that is not completely erased yet.
func (w sweeper) isDeleted(ctx context.Context, thread string) bool {
	owner, err := w.s.eng.read().GetOwner(ctx, thread)
	return err == nil && owner == ""
}

// forgetAfter is how long a dead instance's row stays.
const forgetAfter = 24 * time.Hour

// forget deletes what nobody needs any more: dead instances, upstream legs of deleted threads, commands
// whose senders died, drafts without a message to add them to, old events, rates, and old deliveries.
func (w sweeper) forget(ctx context.Context) error {
	s := w.s
	before := dbtype.At(s.now().Add(-forgetAfter))
	numbered := int64(0)
	err := s.write(ctx, func(q queries) (err error) {
		numbered, err = numberEvents(ctx, q) // of processes that died
		return errors.Join(err,
			q.ForgetInstances(ctx, &before, before),
			q.ForgetOldLegs(ctx, before),
			q.ForgetCommands(ctx, dbtype.At(s.now().Add(-time.Minute))),
			q.ForgetDrafts(ctx),
			q.ForgetEvents(ctx, dbtype.At(s.now().Add(-keepLog))))
	})
	if numbered > 0 {
		s.outbox.tell(wake{Log: true})
		signal(s.hub.grown)
	}
	return errors.Join(s.fail("forget what is old", err), s.Admission.ForgetRates(ctx), s.Hooks.Forget(ctx))
}
