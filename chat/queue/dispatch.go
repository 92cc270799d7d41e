package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
)

// maxScan is how many threads one scan of the table returns.
const maxScan = 500

// Turns answers by text; *chat.Coordinator implements it.
type Turns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	// Busy reports whether a turn runs on the thread.
	Busy(ctx context.Context, key persistence.Key) (bool, error)
	Title(ctx context.Context, key persistence.Key, instructions, text string) (string, error)
}

// Voice speaks into live calls; *bridge.Calls implements it.
type Voice interface {
	// Call returns the id of the thread's call, empty for none, and whether to leave it alone for
	// now.
	Call(key persistence.Key) (id string, busy bool)
	// Deliver says a message in the thread's call and saves it, together with what with writes. The
	// errors are persistence.ErrNotFound if the call is gone and nothing was said,
	// persistence.ErrInvalid for a text that it cannot accept, and persistence.ErrBusy if it
	// accepts none just now.
	Deliver(ctx context.Context, key persistence.Key, m persistence.Message, with func(*persistence.Batch) error) error
}

// job is a thread to look at; with an id, a message that a user sends now.
type job struct {
	key persistence.Key
	id  string
	// sent gets the answer for that user; may be nil.
	sent chan error
}

// answer reports the result of sending now, once.
func (j *job) answer(err error) {
	if j.sent != nil {
		j.sent <- err
		j.sent = nil
	}
}

// Run sends messages until ctx ends, and returns when those that it has begun to send are sent, or
// their turns have ended. It must be called once.
func (q *Queue) Run(ctx context.Context, turns Turns, voice Voice) error {
	q.began = time.Now()
	q.fresh(ctx)
	var working sync.WaitGroup
	working.Go(func() { q.titles.run(ctx, turns) })
	slots := make(chan struct{}, q.cfg.MaxParallel)
	for ctx.Err() == nil {
		wait := q.scan(ctx)
		for {
			j, ok := q.take(len(slots) < cap(slots))
			if !ok {
				break
			}
			slots <- struct{}{}
			leave := sync.OnceFunc(func() { <-slots; q.signal() })
			working.Go(func() {
				defer func() { leave(); q.done(j.key) }()
				(&sending{q: q, turns: turns, voice: voice, job: &j, leave: leave}).run(ctx)
			})
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	q.close()
	working.Wait()
	return nil
}

// fresh resumes queues whose reason to pause may be gone after a restart, such as a wrong key. If
// it is not, they pause again after one attempt.
func (q *Queue) fresh(ctx context.Context) {
	for _, reason := range []string{string(llm.KindAuth), string(llm.KindQuota), string(llm.KindUnavailable), reasonInCall} {
		keys, err := q.store.PausedQueues(ctx, reason)
		if err != nil && ctx.Err() == nil {
			q.log.Warn("paused queues not resumed", "error", err)
		}
		for _, key := range keys {
			q.resume(ctx, key)
		}
	}
}

// Kick makes the queue look at the thread soon. It returns at once.
func (q *Queue) Kick(key persistence.Key) {
	if !q.cfg.Disabled {
		q.put(job{key: key}, false)
	}
}

// sendHere sends a message now, in this process.
func (q *Queue) sendHere(ctx context.Context, key persistence.Key, id string) error {
	sent := make(chan error, 1)
	if !q.put(job{key: key, id: id, sent: sent}, true) {
		return ErrClosed
	}
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// put adds a job, at the front or at the end. It returns false if nobody is left to do it.
func (q *Queue) put(j job, front bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	now := q.working[j.key]
	switch {
	case front:
		q.ready = slices.Insert(q.ready, 0, j)
	case now != nil:
		now.again = true
		return true
	case q.waiting[j.key]:
		return true
	default:
		q.waiting[j.key] = true
		q.ready = append(q.ready, j)
	}
	q.signal()
	return true
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the next job, if there is room for one. A user who sends now waits while the thread
// is being handled, but not for the end of a turn.
func (q *Queue) take(room bool) (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready = slices.DeleteFunc(q.ready, func(j job) bool {
		now := q.working[j.key]
		refused := j.id != "" && now != nil && now.turning
		if refused {
			j.answer(persistence.ErrBusy)
		}
		return refused
	})
	i := slices.IndexFunc(q.ready, func(j job) bool { return q.working[j.key] == nil })
	if !room || i < 0 {
		return job{}, false
	}
	j := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	if j.id == "" {
		delete(q.waiting, j.key)
	}
	q.working[j.key] = &work{}
	return j, true
}

// turns records that the turn of a message is running, or has ended.
func (q *Queue) turns(key persistence.Key, run bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working[key].turning = run
	q.signal()
}

// done ends a job. What was requested meanwhile is done next.
func (q *Queue) done(key persistence.Key) {
	q.mu.Lock()
	again := q.working[key].again
	delete(q.working, key)
	q.signal() // there is room for another one
	q.mu.Unlock()
	if again {
		q.Kick(key)
	}
}

// close rejects what was not begun.
func (q *Queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, j := range q.ready {
		j.answer(ErrClosed)
	}
	q.ready = nil
}

// leaveAlone leaves the thread's call alone until a time; a past or zero time ends that.
func (q *Queue) leaveAlone(key persistence.Key, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !until.After(time.Now()) {
		delete(q.quiet, key)
		return
	}
	q.quiet[key] = until
	q.look(until)
}

// isQuiet reports whether to leave the thread's call alone.
func (q *Queue) isQuiet(key persistence.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Now().Before(q.quiet[key])
}

// lookBy makes sure that the table is scanned by that time.
func (q *Queue) lookBy(at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look(at)
}

func (q *Queue) look(at time.Time) {
	if at.Before(q.lookAt) {
		q.lookAt = at
		q.signal()
	}
}

// scan scans the table if it is time to, and returns when the next scan is due.
func (q *Queue) scan(ctx context.Context) time.Duration {
	q.forgetQuiet()
	if q.cfg.Disabled {
		return time.Hour
	}
	q.mu.Lock()
	wait := time.Until(q.lookAt)
	if wait <= 0 {
		q.lookAt = time.Now().Add(q.cfg.Every)
	}
	q.mu.Unlock()
	if wait > 0 {
		return wait
	}
	keys, err := q.store.DueQueues(ctx, maxScan)
	if err != nil && ctx.Err() == nil {
		q.log.Warn("queues not scanned", "error", err)
	}
	for _, key := range keys {
		q.Kick(key)
	}
	return q.cfg.Every
}

func (q *Queue) forgetQuiet() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, until := range q.quiet {
		if until.Before(time.Now()) {
			delete(q.quiet, key)
		}
	}
}
