package chat

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/persistence"
	"voicebridge/thread"
)

const (
	// keepEvery is the time after which a turn with nothing to save looks for what it was asked to do.
	keepEvery = 2 * time.Second
	// saveTimeout is how long a save may take while the turn goes on.
	saveTimeout = 10 * time.Second
)

// keeper saves a turn while it runs. It saves in the background, one save at
// a time: a slow database delays neither the model's text nor a tool. It belongs to the turn's
// goroutine.
type keeper struct {
	ctx       context.Context // of the turn
	stop      context.CancelCauseFunc
	store     *persistence.Store
	key       thread.Key
	id        string // of the turn
	log       *slog.Logger
	draft     *draft
	questions *questions
	side      *sync.WaitGroup

	wake    chan struct{}        // something may be due
	pending []persistence.Change // to be saved, in their order
	job     *job                 // in progress, or nil
	retryAt time.Time            // after a failure
	keptAt  time.Time            // when the last save began
	saves   []Interval           // that have ended
}

// job is one save.
type job struct {
	draft     persistence.Change // the message, or the text that was added to it; nil if it has not changed
	mark      savedDraft
	pending   []persistence.Change
	questions []asked

	// What follows is read after done.
	done    chan struct{}
	took    Interval
	stop    bool // somebody asked to stop the turn
	answers []thread.Approval
	err     error
}

// put saves a change soon.
func (k *keeper) put(c persistence.Change) { k.pending = append(k.pending, c) }

// look checks for the user's decisions now.
func (k *keeper) look() { k.keptAt = time.Time{} }

// waitFor calls wait until it returns true. If the turn has something to do in the meantime, wake is signalled, and
// wait must return false; what is due is then sent and saved. The error is errLost.
func (k *keeper) waitFor(wait func(wake <-chan struct{}) bool) error {
	for {
		timer := time.AfterFunc(time.Until(k.next()), k.awake)
		came := wait(k.wake)
		timer.Stop()
		if err := k.tick(); err != nil || came {
			return err
		}
	}
}

// pause waits, and keeps the turn alive meanwhile.
func (k *keeper) pause(d time.Duration) error {
	over := time.After(d)
	return errors.Join(k.waitFor(func(wake <-chan struct{}) bool {
		select {
		case <-over:
		case <-k.ctx.Done():
		case <-wake:
			return false
		}
		return true
	}), context.Cause(k.ctx))
}

func (k *keeper) awake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// next returns when there is something to do.
func (k *keeper) next() time.Time {
	if k.ctx.Err() != nil {
		return time.Now().Add(keepEvery) // the end saves all
	}
	at := k.keptAt.Add(keepEvery)
	if k.job != nil {
		at = time.Now().Add(keepEvery) // its end wakes us
	} else if due := k.saveDue(); !due.IsZero() && due.Before(at) {
		at = due
	}
	if t := k.draft.publishAt; !t.IsZero() && t.Before(at) {
		at = t
	}
	return at
}

// saveDue returns when there is something to save, zero for nothing.
func (k *keeper) saveDue() time.Time {
	due := k.draft.saveAt
	if len(k.pending) > 0 || k.unasked() {
		due = k.keptAt // now
	}
	if !due.IsZero() && due.Before(k.retryAt) {
		due = k.retryAt
	}
	return due
}

// unasked reports whether there is an approval that nobody knows about.
func (k *keeper) unasked() bool {
	return slices.ContainsFunc(k.questions.open, func(c *call) bool { return !c.asked })
}

// tick sends and saves what is due.
func (k *keeper) tick() error {
	if err := k.collect(); err != nil {
		return err
	}
	if k.ctx.Err() != nil {
		return nil //nolint:nilerr // the end saves everything
	}
	now := time.Now()
	k.draft.publishDue(now)
	due := k.saveDue()
	if k.job == nil && (!due.IsZero() && !now.Before(due) || !now.Before(k.keptAt.Add(keepEvery))) {
		k.begin(now)
	}
	return nil
}

// begin starts saving in the background.
func (k *keeper) begin(now time.Time) {
	j := &job{pending: k.pending, questions: k.questions.snapshot(), done: make(chan struct{})}
	if !k.draft.saveAt.IsZero() {
		j.mark = k.draft.mark()
		j.draft = persistence.PutMessage{Message: k.draft.snapshot()}
		if added := k.draft.added(); added != nil {
			j.draft = persistence.PutDraft{Draft: *added}
		}
	}
	k.job, k.pending, k.draft.saveAt, k.keptAt = j, nil, time.Time{}, now
	k.side.Go(func() {
		defer k.awake()
		defer close(j.done)
		ctx, cancel := context.WithTimeout(k.ctx, saveTimeout)
		defer cancel()
		j.err = k.store.Batch(ctx, k.key, func(b *persistence.Batch) error { return k.save(b, j) })
		j.took = Interval{now, time.Now()}
	})
}

func (k *keeper) save(b *persistence.Batch, j *job) (err error) {
	if j.stop, err = b.HoldTurn(k.id); err != nil {
		return err
	}
	if j.draft != nil {
		if err := b.Apply(j.draft); err != nil {
			return err
		}
	}
	if err := b.Apply(j.pending...); err != nil {
		return err
	}
	j.answers, err = saveQuestions(b, j.questions)
	return err
}

// collect takes the result of a finished save. It gives up only if the turn has lost its thread
// (errLost). A database that is briefly unavailable loses nothing, since everything is saved again.
func (k *keeper) collect() error {
	j := k.job
	if j == nil {
		return nil
	}
	select {
	case <-j.done:
	default:
		return nil
	}
	k.job = nil
	k.saved(j.took)
	if j.err == nil {
		if j.draft != nil {
			k.draft.saved = j.mark
		}
		k.retryAt = time.Time{}
		k.questions.saved(j.questions, j.answers)
		if j.stop {
			k.stop(errInterrupted)
		}
		return nil
	}
	if errors.Is(j.err, persistence.ErrInvalid) {
		k.log.Error("record not saved", "error", j.err) // and never will be
	} else {
		k.pending = append(j.pending, k.pending...)
	}
	if k.draft.saveAt.IsZero() && j.draft != nil {
		k.draft.saveAt = time.Now()
	}
	switch {
	case k.ctx.Err() != nil: // the end saves everything
	case errors.Is(j.err, persistence.ErrNotFound):
		k.stop(errLost)
		return errLost
	default:
		k.log.Warn("turn not saved, trying again", "error", j.err)
		k.retryAt = time.Now().Add(saveEvery)
	}
	return nil //nolint:nilerr // it will be saved again
}

// maxSaves is how many transactions the report of a turn lists.
const maxSaves = 64

// saved records a finished transaction.
func (k *keeper) saved(took Interval) {
	if len(k.saves) < maxSaves {
		k.saves = append(k.saves, took)
	}
}

// flush saves everything and waits for that: a tool does not run before its call is on record. The
// error is errLost.
func (k *keeper) flush() error {
	for range 2 { // the save in progress, and one with the rest
		if k.job == nil && k.ctx.Err() == nil && (len(k.pending) > 0 || k.unasked()) && !time.Now().Before(k.retryAt) {
			k.begin(time.Now())
		}
		if k.job == nil {
			return nil
		}
		<-k.job.done
		if err := k.collect(); err != nil {
			return err
		}
	}
	return nil
}

// final saves the end of the turn and what is pending. It tries until that succeeds, can never
// succeed, or ctx ends.
func (k *keeper) final(ctx context.Context, end func(*persistence.Batch) error) error {
	if k.job != nil {
		<-k.job.done // it ends soon: it has its own time limit
		_ = k.collect()
	}
	return insist(ctx, k.log, func() error {
		began := time.Now()
		err := k.store.Batch(ctx, k.key, func(b *persistence.Batch) error {
			if _, err := b.HoldTurn(k.id); err != nil {
				return err
			}
			if err := b.Apply(k.pending...); err != nil {
				return err
			}
			return end(b)
		})
		k.saved(Interval{began, time.Now()})
		return err
	})
}

// insist writes what ends a turn. It tries until that succeeds, can never succeed, or ctx ends.
func insist(ctx context.Context, log *slog.Logger, write func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	for {
		err := write()
		if err == nil || errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrInvalid) || errors.Is(err, persistence.ErrConflict) {
			return err
		}
		log.Warn("turn not saved, trying again", "error", err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return err
		}
	}
}
