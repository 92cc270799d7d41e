package simulator

import (
	"container/heap"
	"time"
)

// timer is work that is due at a certain time.
type timer struct {
	at  time.Time
	seq int // equal times fire in order of creation
	f   func()
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || (t[i].at.Equal(t[j].at) && t[i].seq < t[j].seq)
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return last
}

// clock runs work when it is due. It belongs to the session's goroutine.
type clock struct {
	timers timers
	made   int
}

// after makes fire call f once d has passed.
func (c *clock) after(d time.Duration, f func()) {
	c.made++
	heap.Push(&c.timers, timer{at: time.Now().Add(d), seq: c.made, f: f})
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
	heap.Pop(&c.timers).(timer).f()
	return true
}

// Pace is how fast a session thinks. Zero fields mean the defaults, which the comments name.
type Pace struct {
	Think      time.Duration // from the turn's end to the first output; 150 ms
	Step       time.Duration // between two deltas of about three words; 30 ms
	Transcript time.Duration // from the turn's end to its transcript; 250 ms
}
