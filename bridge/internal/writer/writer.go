// Package writer saves a call's changes to its thread, in order and without ever making the call
// wait: in the database or, while that is unavailable, where a [Committer] keeps them.
package writer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// CommitTimeout limits one attempt to save changes.
const CommitTimeout = 10 * time.Second

// Limits of a writer.
const (
	maxWaiting = 16 << 20        // unsaved bytes above which the thread counts as lost
	lastTry    = 5 * time.Second // for what is still unsaved when the process ends
	// Text added to messages in progress, and responses that begin, are written at multiples of this interval, so that
	// those of all calls go into one transaction. Any other change of the same call takes them along.
	gather = 250 * time.Millisecond
	// A finished message whose response is about to end waits for it this long.
	moment = 20 * time.Millisecond
)

// Log is where a call's thread is written.
type Log interface {
	// Commit saves all changes or, with an error, none. It returns the messages as saved. A change that can never be
	// saved is left out and is no error.
	Commit(ctx context.Context, ops []session.Change) ([]thread.Message, error)
}

// Writer saves a call's changes to its thread, in order and without ever making the loop wait.
// While the database is unavailable it keeps them all, up to a limit, merging those of the same
// record.
type Writer struct {
	thread Log
	log    *slog.Logger
	// saved is called with each saved message.
	saved func(thread.Message)

	mu      sync.Mutex
	waiting []session.Change
	index   map[string]int // into waiting, by key
	bytes   int            // of waiting
	due     time.Time      // when what is waiting must be written at the latest
	closed  bool
	wake    chan struct{}
}

// New returns a writer to thread. saved is called with each saved message.
func New(thread Log, log *slog.Logger, saved func(thread.Message)) *Writer {
	return &Writer{thread: thread, log: log, saved: saved, index: make(map[string]int), wake: make(chan struct{}, 1)}
}

// Push adds changes, which are saved together or not at all. It returns false, and adds none, if too much is waiting.
func (w *Writer) Push(ops ...session.Change) bool { return w.add(maxWaiting, ops) }

// PushLast adds the last changes of a call, whatever is waiting.
func (w *Writer) PushLast(ops ...session.Change) { w.add(math.MaxInt, ops) }

func (w *Writer) add(limit int, ops []session.Change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := 0
	for _, o := range ops {
		more += o.Size()
	}
	if more > limit-w.bytes {
		return false
	}
	for _, o := range ops {
		due := dueAt(o, time.Now())
		if len(w.waiting) == 0 || due.Before(w.due) {
			w.due = due
		}
		w.put(o)
	}
	w.signal()
	return true
}

// dueAt returns when a change that is made now must be written: later if it belongs to something unfinished, since more
// will follow.
func dueAt(o session.Change, now time.Time) time.Time {
	switch o := o.(type) {
	case session.SaveDraft:
		return now.Truncate(gather).Add(gather)
	case session.SaveMessage:
		if o.Continues {
			return now.Add(moment)
		}
	case session.SaveResponse:
		if o.Response.FinishedAt == nil {
			return now.Truncate(gather).Add(gather)
		}
	}
	return now
}

// put adds a change, or merges it into a waiting one. w.mu is held.
func (w *Writer) put(o session.Change) {
	key := o.Key()
	switch c := o.(type) {
	case session.SaveDraft:
		// If the whole message is waiting, the draft becomes part of it.
		if i, ok := w.index[session.SaveMessage{Message: thread.Message{ID: c.MessageID}}.Key()]; ok {
			m, ok := grown(w.waiting[i], c)
			if ok {
				w.bytes += m.Size() - w.waiting[i].Size()
				w.waiting[i] = m
			}
			return
		}
	case session.SaveMessage:
		// The message includes a waiting draft.
		if i, ok := w.index[session.SaveDraft{Draft: persistence.Draft{MessageID: c.Message.ID}}.Key()]; ok {
			w.bytes += o.Size() - w.waiting[i].Size()
			delete(w.index, w.waiting[i].Key())
			w.waiting[i], w.index[key] = o, i
			return
		}
	}
	if i, ok := w.index[key]; ok {
		w.bytes += o.Size() - w.waiting[i].Size()
		w.waiting[i] = merge(w.waiting[i], o)
		return
	}
	w.index[key] = len(w.waiting)
	w.waiting = append(w.waiting, o)
	w.bytes += o.Size()
}

// grown returns a waiting message with the draft added to it; false if the draft does not continue its text, which then
// contains it already.
func grown(waiting session.Change, d session.SaveDraft) (session.Change, bool) {
	c, ok := waiting.(session.SaveMessage)
	for i := len(c.Message.Parts) - 1; ok && i >= 0; i-- {
		p := &c.Message.Parts[i]
		if p.Type != thread.TextPart("").Type {
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

// merge returns what replaces a waiting change when a later one has the same key. A new message
// keeps its place.
func merge(old, later session.Change) session.Change {
	o, ok := old.(session.SaveMessage)
	n, also := later.(session.SaveMessage)
	if ok && also {
		n.Place = o.Place
		return n
	}
	if d, ok := old.(session.SaveDraft); ok {
		// A draft that continues the waiting one is appended to it.
		if n, also := later.(session.SaveDraft); also && n.Start == d.Start+len(d.Text) {
			d.Text += n.Text
			return d
		}
	}
	return later
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close lets Run end once everything is saved.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.signal()
}

func (w *Writer) next() (ops []session.Change, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops, w.waiting = w.waiting, nil
	w.bytes = 0
	clear(w.index)
	return ops, w.closed
}

// gathering returns how long the waiting changes may still wait: 0 or less if they must be written now, or there are
// none.
func (w *Writer) gathering() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 || w.closed {
		return 0
	}
	return time.Until(w.due)
}

// gather returns when the waiting changes must be written.
func (w *Writer) gather(ctx context.Context) {
	pause := w.gathering()
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for ; pause > 0; pause = w.gathering() {
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		case <-w.wake:
		}
	}
}

// Run saves what is pushed until the writer is closed and everything is saved, or ctx ends. It
// returns how many changes were not saved.
func (w *Writer) Run(ctx context.Context) (lost int) {
	for {
		w.gather(ctx)
		ops, last := w.next()
		if len(ops) == 0 {
			if last {
				return 0
			}
			select {
			case <-w.wake:
				continue
			case <-ctx.Done():
				return 0
			}
		}
		if err := w.save(ctx, ops); err != nil {
			rest, _ := w.next()
			return len(ops) + len(rest)
		}
	}
}

// Running is a writer that runs in the background and may outlive its call.
type Running struct {
	done   <-chan struct{} // closed when everything is saved, or given up
	giveUp context.CancelFunc
	lost   *atomic.Int64 // changes that were not saved
}

// Start runs the writer until it is closed and everything is saved; Join waits for that.
func (w *Writer) Start() Running {
	ctx, cancel := context.WithCancel(context.Background())
	lost := new(atomic.Int64)
	return Running{giveUp: cancel, lost: lost, done: task.Go(func() {
		if n := w.Run(ctx); n > 0 {
			lost.Store(int64(n))
			w.log.Error("end of the call not saved", "changes", n)
		}
	})}
}

// Done is closed when everything is saved, or given up.
func (r Running) Done() <-chan struct{} { return r.done }

// IsDone reports whether everything is saved, or given up.
func (r Running) IsDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Join waits until everything is saved, or for a short time after ending is closed, and returns how
// many changes were not saved.
func (r Running) Join(ending <-chan struct{}) (lost int64) {
	defer r.giveUp()
	select {
	case <-r.done:
	case <-ending:
		task.Await(r.done, lastTry)
		r.giveUp()
		<-r.done
	}
	return r.lost.Load()
}

// save tries until the changes are saved, or the store is closed.
func (w *Writer) save(ctx context.Context, ops []session.Change) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	for {
		err := w.try(ctx, ops)
		if err == nil {
			return nil
		}
		if errors.Is(err, persistence.ErrClosed) {
			return err
		}
		w.log.Warn("thread not saved, trying again", "error", err, "changes", len(ops))
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Writer) try(ctx context.Context, ops []session.Change) error {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	saved, err := w.thread.Commit(ctx, ops)
	if err != nil {
		return err
	}
	for _, m := range saved {
		w.saved(m)
	}
	return nil
}
