package served

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// maxMail limits what waits for a session, or for its client. More ends the session.
const maxMail = 8192

// ErrOverload means that a session ended because its client sent faster than it works, or read too slowly.
var ErrOverload = errors.New("client sends too fast or reads too slowly")

// Loop runs the work of a session on one goroutine, that of Run.
type Loop struct {
	mu    sync.Mutex
	work  []func()
	full  bool
	ready chan struct{} // holds a token when there is work

	timers []timer // the next one first
}

// NewLoop returns a Loop that is not run yet.
func NewLoop() *Loop { return &Loop{ready: make(chan struct{}, 1)} }

// Do adds work, and may be called on any goroutine. It never blocks; if too much is waiting, f is dropped.
func (l *Loop) Do(f func()) {
	l.mu.Lock()
	if len(l.work) < maxMail {
		l.work = append(l.work, f)
	} else {
		l.full = true
	}
	l.mu.Unlock()
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// hand makes Run call f, and waits until f's argument was called. It returns false if ctx ends first.
func (l *Loop) hand(ctx context.Context, f func(taken func())) bool {
	done := make(chan struct{})
	l.Do(func() { f(func() { close(done) }) })
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// take returns what is waiting, in order; overflow means that something was dropped.
func (l *Loop) take() (work []func(), overflow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	work, l.work = l.work, nil
	return work, l.full
}

// Run does the work, and calls tick at each time that next returns, unless it is zero. It returns why ctx has ended, or
// ErrOverload.
func (l *Loop) Run(ctx context.Context, next func() time.Time, tick func()) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(l.untilNext(next(), time.Now()))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ready:
			work, overflow := l.take()
			for _, f := range work {
				if ctx.Err() != nil {
					break
				}
				f()
			}
			if overflow && ctx.Err() == nil {
				return ErrOverload
			}
		case <-timer.C:
		}
		now := time.Now()
		for ctx.Err() == nil && l.fire(now) {
		}
		for at := next(); ctx.Err() == nil && !at.IsZero() && !at.After(now); at = next() {
			tick()
		}
	}
}

// untilNext returns the time until something is due, an hour if nothing is planned.
func (l *Loop) untilNext(tick, now time.Time) time.Duration {
	wait := time.Hour
	if len(l.timers) > 0 {
		wait = l.timers[0].at.Sub(now)
	}
	if !tick.IsZero() {
		wait = min(wait, tick.Sub(now))
	}
	return max(0, wait)
}

// timer is work that is due at a certain time.
type timer struct {
	at time.Time
	f  func()
}

// After makes Run call f once d has passed. Equal times come in order of creation. It may be called by the Loop's own
// work, and before Run.
func (l *Loop) After(d time.Duration, f func()) {
	t := timer{time.Now().Add(d), f}
	i, _ := slices.BinarySearchFunc(l.timers, t.at, func(other timer, at time.Time) int {
		if other.at.After(at) {
			return 1
		}
		return -1
	})
	l.timers = slices.Insert(l.timers, i, t)
}

// fire runs the first due timer; it returns false if none is due.
func (l *Loop) fire(now time.Time) bool {
	if len(l.timers) == 0 || l.timers[0].at.After(now) {
		return false
	}
	f := l.timers[0].f
	l.timers = slices.Delete(l.timers, 0, 1)
	f()
	return true
}
