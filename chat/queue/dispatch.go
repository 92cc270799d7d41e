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

// maxScan is how many threads one look through the table gives.
const maxScan = 500

// Turns answers by text; *chat.Coordinator does.
type Turns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	// Busy says whether a turn runs on the thread.
	Busy(ctx context.Context, key persistence.Key) (bool, error)
	Title(ctx context.Context, key persistence.Key, instructions, text string) (string, error)
}

// Voice speaks into live calls; *bridge.Calls does.
type Voice interface {
	// Call tells the id of the thread's call, empty for none, and whether it is to
	// be left alone just now.
	Call(key persistence.Key) (id string, busy bool)
	// Deliver says a message in the thread's call and saves it, together with what
	// with writes. The errors are persistence.ErrNotFound when the call is gone,
	// with nothing said, persistence.ErrInvalid for a text that it cannot take, and
	// persistence.ErrBusy when it cannot take any just now.
	Deliver(ctx context.Context, key persistence.Key, m persistence.Message, with func(*persistence.Batch) error) error
}

// job is a thread to look at; with an id, a message to send by hand.
type job struct {
	key persistence.Key
	id  string
	// sent gets the answer to who sends by hand; nil for nobody.
	sent chan error
}

// answer tells who sends by hand what came of it, once.
func (j *job) answer(err error) {
	if j.sent != nil {
		j.sent <- err
		j.sent = nil
	}
}

// Run sends messages until ctx ends, and returns when those that it has begun to
// send are sent, or their turns have ended. It must be called once.
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

// fresh resumes queues whose reason to pause a start may have removed: a
// new key, for example. If it has not, they pause again after one try.
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

// Kick has the thread looked at soon. It returns at once.
func (q *Queue) Kick(key persistence.Key) {
	if !q.cfg.Disabled {
		q.put(job{key: key}, false)
	}
}

// sendHere sends a message by hand, in this process.
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

// put adds a job, at the front or at the end. It reports false when there is
// nobody left to do it.
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

// take gives the next job, if there is room for one. Who sends by hand waits while
// the thread is looked at, but not for the end of a turn.
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

// turns notes that the turn of a message runs, or has ended.
func (q *Queue) turns(key persistence.Key, run bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working[key].turning = run
	q.signal()
}

// done is the end of a job. What was asked for meanwhile is done next.
func (q *Queue) done(key persistence.Key) {
	q.mu.Lock()
	again := q.working[key].again
	delete(q.working, key)
	q.signal() // there is room for another
	q.mu.Unlock()
	if again {
		q.Kick(key)
	}
}

// close refuses what was not begun.
func (q *Queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, j := range q.ready {
		j.answer(ErrClosed)
	}
	q.ready = nil
}

// leaveAlone lets the thread's call speak until a time; one that has passed, or
// zero, ends that.
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

// isQuiet says whether the thread's call is to be left alone.
func (q *Queue) isQuiet(key persistence.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Now().Before(q.quiet[key])
}

// lookBy has the table looked through at that time at the latest.
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

// scan looks through the table when it is time to, and tells when it is again.
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
