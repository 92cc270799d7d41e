package spool

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

const (
	// batchBytes is how much goes into one transaction, and how much of a thread waits to be written as a whole.
	batchBytes = 256 << 10
	// maxWaiting is how many bytes of a thread's changes may wait to be written: more are not taken.
	maxWaiting = 16 << 20
	// Text added to messages in progress, and responses that begin, are written at multiples of gather, so that those of
	// all calls go into one transaction. Any other change of the same thread takes them along.
	gather = 250 * time.Millisecond
	// moment is how long a finished message whose response is about to end waits for that.
	moment = 20 * time.Millisecond
)

// queue holds the changes that are neither in the database nor in the file. It is safe for concurrent use.
type queue struct {
	// wake gets a value when something is to be written earlier than what was waiting.
	wake chan struct{}

	mu    sync.Mutex
	lanes map[thread.Key]*lane // the last one of each thread
	due   []*lane              // those with waiting changes, whose turn is first
	at    time.Time            // when the first of them must be written, zero if there are none
	// closed means that nothing more is taken.
	closed bool
}

// lane holds changes of one thread, which are written as a whole. What comes once there are many has another lane, the
// turn of which is later.
type lane struct {
	key     thread.Key
	waiting []persistence.Change
	index   map[subject]int // into waiting
	bytes   int             // of waiting
	due     time.Time       // when what is waiting must be written at the latest
	// pushed counts what was pushed, taken is its value when changes were last taken to be written.
	pushed, taken int
	awaited       []awaited
}

// awaited is somebody who waits until what was pushed before is saved.
type awaited struct {
	pushed int
	saved  chan struct{}
}

// subject names what is changed.
type subject struct{ kind, id string }

func subjectOf(c persistence.Change) (s subject) {
	s.kind, s.id = c.Subject()
	return s
}

// batch is what was taken of a lane: it is written as a whole.
type batch struct {
	lane *lane
	persistence.ThreadChanges
	due time.Time
}

// push adds changes of a thread; false means that more than limit bytes would wait.
func (q *queue) push(limit int, key thread.Key, changes []persistence.Change) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, more := q.lanes[key], 0
	l := before
	if l == nil || l.bytes >= batchBytes {
		l = &lane{key: key, index: make(map[subject]int)}
	}
	for _, c := range changes {
		more += c.Size()
	}
	for _, l := range q.due {
		if l.key == key {
			more += l.bytes
		}
	}
	if q.closed || more > limit {
		return false
	}
	if l != before && before != nil {
		q.hurry(before, time.Now())
	}
	due := dueAt(changes, time.Now())
	if q.lanes[key] = l; len(l.waiting) == 0 {
		l.due = due
		q.due = append(q.due, l)
	}
	for _, c := range changes {
		l.put(c)
	}
	l.pushed++
	q.hurry(l, due)
	return true
}

// hurry has a lane written at that time, or earlier. mu is held.
func (q *queue) hurry(l *lane, due time.Time) {
	if due.Before(l.due) {
		l.due = due
	}
	if !q.at.IsZero() && !due.Before(q.at) {
		return
	}
	q.at = due
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// dueAt returns when changes that are made now must be written: later if they belong to something unfinished, since
// more will follow.
func dueAt(changes []persistence.Change, now time.Time) time.Time {
	due := now.Truncate(gather).Add(gather)
	for _, c := range changes {
		at := now
		switch c := c.(type) {
		case persistence.PutDraft:
			continue
		case persistence.PutMessage:
			switch {
			case c.Grows:
				continue
			case c.Continues:
				at = now.Add(moment)
			}
		case persistence.PutResponse:
			if c.Response.FinishedAt == nil {
				continue
			}
		}
		if at.Before(due) {
			due = at
		}
	}
	return due
}

// put adds a change, or merges it into a waiting one.
func (l *lane) put(c persistence.Change) {
	about := subjectOf(c)
	switch c := c.(type) {
	case persistence.PutDraft:
		// If the whole message is waiting, the draft becomes part of it.
		if i, ok := l.index[subjectOf(persistence.PutMessage{Message: thread.Message{ID: c.MessageID}})]; ok {
			if m, ok := grown(l.waiting[i], c); ok {
				l.set(i, m)
			}
			return
		}
	case persistence.PutMessage:
		// The message includes a waiting draft.
		draft := subjectOf(persistence.PutDraft{Draft: persistence.Draft{MessageID: c.Message.ID}})
		if i, ok := l.index[draft]; ok {
			delete(l.index, draft)
			l.index[about] = i
			l.set(i, c)
			return
		}
	}
	if i, ok := l.index[about]; ok {
		l.set(i, merge(l.waiting[i], c))
		return
	}
	l.index[about] = len(l.waiting)
	l.waiting = append(l.waiting, c)
	l.bytes += c.Size()
}

func (l *lane) set(i int, c persistence.Change) {
	l.bytes += c.Size() - l.waiting[i].Size()
	l.waiting[i] = c
}

// grown returns a waiting message with the draft added to it; false if the draft does not continue its text, which then
// contains it already.
func grown(waiting persistence.Change, d persistence.PutDraft) (persistence.Change, bool) {
	c, ok := waiting.(persistence.PutMessage)
	for i := len(c.Message.Parts) - 1; ok && i >= 0; i-- {
		p := &c.Message.Parts[i]
		if p.Type != thread.PartText {
			continue
		}
		if len(p.Text) != d.Start {
			return nil, false
		}
		c.Message.Parts = slices.Clone(c.Message.Parts)
		c.Message.Parts[i].Text += d.Text
		return c, true
	}
	return nil, false
}

// merge returns what replaces a waiting change when a later one has the same subject.
func merge(old, later persistence.Change) persistence.Change {
	switch n := later.(type) {
	case persistence.PutMessage: // a new message keeps its place
		if o, ok := old.(persistence.PutMessage); ok {
			n.Place, n.Queued = o.Place, cmp.Or(n.Queued, o.Queued)
			return n
		}
	case persistence.PutDraft: // one that continues the waiting one is appended to it
		if o, ok := old.(persistence.PutDraft); ok && n.Start == o.Start+len(o.Text) {
			o.Text += n.Text
			return o
		}
	}
	return later
}

// next returns when something is to be written, zero if nothing waits.
func (q *queue) next() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.at
}

// take removes and returns what is to be written by a time, as much as one transaction should hold. put or done must
// follow.
func (q *queue) take(by time.Time) (taken []batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	q.at = time.Time{}
	var rest, again []*lane // again are of threads that have had their turn
	for _, l := range q.due {
		had := slices.ContainsFunc(taken, func(b batch) bool { return b.Key == l.key })
		if had || size >= batchBytes || l.due.After(by) {
			to := &rest
			if had {
				to = &again
			}
			if *to = append(*to, l); q.at.IsZero() || l.due.Before(q.at) {
				q.at = l.due
			}
			continue
		}
		size += l.bytes
		changes := persistence.ThreadChanges{Key: l.key, Changes: l.waiting}
		taken = append(taken, batch{lane: l, due: l.due, ThreadChanges: changes})
		l.taken, l.waiting, l.bytes = l.pushed, nil, 0
		clear(l.index)
	}
	q.due = append(rest, again...)
	return taken
}

// put takes back what could not be written, before what was pushed meanwhile.
func (q *queue) put(taken []batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range taken {
		l := b.lane
		if len(l.waiting) == 0 {
			q.due = slices.Insert(q.due, 0, l)
		}
		later := l.waiting
		l.waiting, l.bytes, l.due = nil, 0, b.due
		clear(l.index)
		for _, c := range slices.Concat(b.Changes, later) {
			l.put(c)
		}
		q.hurry(l, b.due)
	}
}

// done says that what was taken is saved.
func (q *queue) done(taken []batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range taken {
		l := b.lane
		l.awaited = slices.DeleteFunc(l.awaited, func(a awaited) bool {
			if a.pushed > l.taken {
				return false
			}
			close(a.saved)
			return true
		})
		if len(l.waiting) == 0 && q.lanes[l.key] == l {
			delete(q.lanes, l.key)
		}
	}
}

// saved returns a channel that is closed once what was pushed for a thread is saved, which must not wait any longer.
func (q *queue) saved(key thread.Key) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	saved := make(chan struct{})
	l := q.lanes[key]
	if l == nil {
		close(saved)
		return saved
	}
	l.awaited = append(l.awaited, awaited{l.pushed, saved})
	if len(l.waiting) > 0 {
		q.hurry(l, time.Now())
	}
	return saved
}

// close refuses what is pushed from now on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// rest returns the number of changes that wait.
func (q *queue) rest() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.due {
		n += len(l.waiting)
	}
	return n
}
