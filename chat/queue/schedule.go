package queue

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// ErrClosed means that the queue no longer sends, because the server is stopping.
var ErrClosed = errors.New("the queue has stopped")

// schedule says which threads to handle next, and when to scan the table. It is safe for concurrent use.
type schedule struct {
	disabled bool // messages are only sent by hand

	mu sync.Mutex
	// ready are the jobs to do, in order; waiting are the threads with a job there that has no id.
	ready   []job
	waiting map[thread.Key]bool
	// working are the threads that are being handled.
	working map[thread.Key]*work
	// quiet is until when a thread is left alone, because its call is answering.
	quiet map[thread.Key]time.Time
	// begun are the messages whose sending was announced before the delay.
	begun map[thread.Key]string
	// lookAt is when the table must be scanned at the latest.
	lookAt time.Time
	closed bool
	wake   chan struct{}
}

// work is what is going on in a thread.
type work struct {
	again   bool // handle it once more
	turning bool // a message was sent, and its turn is running
}

func newSchedule(disabled bool) schedule {
	return schedule{
		disabled: disabled, wake: make(chan struct{}, 1),
		waiting: map[thread.Key]bool{}, working: map[thread.Key]*work{}, quiet: map[thread.Key]time.Time{},
		begun: map[thread.Key]string{},
	}
}

// job is a thread to handle; with an id, a message that a user sends now.
type job struct {
	key thread.Key
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

// Kick makes the queue handle the thread soon. It returns at once.
func (q *schedule) Kick(key thread.Key) {
	if !q.disabled {
		q.put(job{key: key}, false)
	}
}

// put adds a job, at the front or at the end. It returns false if the queue has stopped.
func (q *schedule) put(j job, front bool) bool {
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

func (q *schedule) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the next job, if there is room for one. A user who sends now waits while the thread
// is being handled, but not for the end of a turn.
func (q *schedule) take(room bool) (job, bool) {
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
func (q *schedule) turns(key thread.Key, run bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working[key].turning = run
	q.signal()
}

// done ends a job. A thread that was kicked meanwhile is handled again.
func (q *schedule) done(key thread.Key) {
	q.mu.Lock()
	again := q.working[key].again
	delete(q.working, key)
	q.signal() // there is room for another one
	q.mu.Unlock()
	if again {
		q.Kick(key)
	}
}

// close refuses what was not begun.
func (q *schedule) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, j := range q.ready {
		j.answer(ErrClosed)
	}
	q.ready = nil
}

// first reports whether a message is another one than at the last call for its thread.
func (q *schedule) first(key thread.Key, id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.begun[key] != id
	q.begun[key] = id
	return first
}

// forget makes the next call of first return true.
func (q *schedule) forget(key thread.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.begun, key)
}

// leaveAlone leaves the thread's call alone until a time; a past or zero time ends that.
func (q *schedule) leaveAlone(key thread.Key, until time.Time) {
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
func (q *schedule) isQuiet(key thread.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Now().Before(q.quiet[key])
}

// lookBy makes sure that the table is scanned by that time.
func (q *schedule) lookBy(at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look(at)
}

func (q *schedule) look(at time.Time) {
	if at.Before(q.lookAt) {
		q.lookAt = at
		q.signal()
	}
}

// due returns how long until the table must be scanned. If that is now (0 or less), it plans the next scan after every.
func (q *schedule) due(every time.Duration) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if wait = time.Until(q.lookAt); wait <= 0 {
		q.lookAt = time.Now().Add(every)
	}
	return wait
}

func (q *schedule) forgetQuiet() {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.quiet, func(_ thread.Key, until time.Time) bool { return until.Before(time.Now()) })
}
