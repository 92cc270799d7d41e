package simulator

import (
	"slices"
	"sync"
	"time"
)

// maxMail limits what waits for a session. More ends the session: its client sends faster than it works.
const maxMail = 8192

// mailbox carries work from other goroutines to the session's own.
type mailbox struct {
	mu    sync.Mutex
	work  []func()
	full  bool
	ready chan struct{} // holds a token when there is work
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// post adds work. It never blocks; if too much is waiting, f is dropped.
func (m *mailbox) post(f func()) {
	m.mu.Lock()
	if len(m.work) < maxMail {
		m.work = append(m.work, f)
	} else {
		m.full = true
	}
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take returns what is waiting, in order; overflow means that something was dropped.
func (m *mailbox) take() (work []func(), overflow bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	work, m.work = m.work, nil
	return work, m.full
}

// timer is work that is due at a certain time.
type timer struct {
	at time.Time
	f  func()
}

// clock runs work when it is due. It belongs to the session's goroutine.
type clock struct {
	timers []timer // the next one first
}

// after makes fire call f once d has passed. Equal times fire in order of creation.
func (c *clock) after(d time.Duration, f func()) {
	t := timer{time.Now().Add(d), f}
	i, _ := slices.BinarySearchFunc(c.timers, t.at, func(other timer, at time.Time) int {
		if other.at.After(at) {
			return 1
		}
		return -1
	})
	c.timers = slices.Insert(c.timers, i, t)
}

// next returns the time until something is due, an hour if nothing is planned.
func (c *clock) next(now time.Time) time.Duration {
	if len(c.timers) == 0 {
		return time.Hour
	}
	return c.timers[0].at.Sub(now)
}

// fire runs the first due timer; it returns false if none is due.
func (c *clock) fire(now time.Time) bool {
	if len(c.timers) == 0 || c.timers[0].at.After(now) {
		return false
	}
	f := c.timers[0].f
	c.timers = slices.Delete(c.timers, 0, 1)
	f()
	return true
}

// Pace is how fast a session thinks. Zero fields mean the defaults, which the comments name.
type Pace struct {
	Think      time.Duration // from the turn's end to the first output; 150 ms
	Step       time.Duration // between two deltas of about three words; 30 ms
	Transcript time.Duration // from the turn's end to its transcript; 250 ms
}
