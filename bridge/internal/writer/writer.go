// Package writer saves what a call says in its thread, in order and without ever making
// the call wait: in the database or, while that is away, where a [Committer] keeps it.
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
)

// CommitTimeout is the limit of one try to save something.
const CommitTimeout = 10 * time.Second

// Limits of a writer.
const (
	maxWaiting = 16 << 20        // waiting bytes above which the thread counts as lost
	lastTry    = 5 * time.Second // for what is still not saved when the process ends
	// Words that were added to messages in progress, and answers that begin, wait for the
	// next multiple of this, where those of all calls meet: they are written in one
	// transaction. What else a call says takes them along at once.
	gather = 250 * time.Millisecond
)

// Log is where a call's thread is written.
type Log interface {
	// Commit saves all ops, or none and returns an error. It returns the messages
	// as they are saved.
	Commit(ctx context.Context, ops []session.Change) ([]persistence.Message, error)
	// CommitOne saves one session.Change as well as it can: what is there already is
	// changed; what has lost its place goes to the end.
	CommitOne(ctx context.Context, o session.Change) ([]persistence.Message, error)
}

// Writer writes what a call says to its thread, in order and without ever
// making the loop wait. While the database is away it keeps everything, up to a
// limit, and only the last of several changes to one thing.
type Writer struct {
	thread Log
	log    *slog.Logger
	// saved is told of each message that was saved.
	saved func(persistence.Message)

	mu      sync.Mutex
	waiting []session.Change
	index   map[string]int // by key into waiting
	bytes   int
	urgent  bool // something waits that must not be gathered
	closed  bool
	wake    chan struct{}
}

// New returns a writer to thread. saved is told of each message that was saved.
func New(thread Log, log *slog.Logger, saved func(persistence.Message)) *Writer {
	return &Writer{thread: thread, log: log, saved: saved, index: make(map[string]int), wake: make(chan struct{}, 1)}
}

// Push adds ops that are saved together or not at all. It reports false, and adds
// none, when too much waits.
func (w *Writer) Push(ops ...session.Change) bool { return w.add(maxWaiting, ops) }

// PushLast adds what a call says at its end, which has room always.
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
		w.put(o)
		w.urgent = w.urgent || !mayWait(o)
	}
	w.signal()
	return true
}

// mayWait reports whether a change is the middle or the beginning of something whose rest is
// about to follow.
func mayWait(o session.Change) bool {
	switch o := o.(type) {
	case session.SaveDraft:
		return true
	case session.SaveResponse:
		return o.Response.FinishedAt == nil
	}
	return false
}

// add puts one session.Change in its place. w.mu is held.
func (w *Writer) put(o session.Change) {
	key := o.Key()
	switch c := o.(type) {
	case session.SaveDraft:
		// Of a message that waits itself, it is a part.
		if i, ok := w.index[session.SaveMessage{Message: persistence.Message{ID: c.MessageID}}.Key()]; ok {
			m, ok := grown(w.waiting[i], c)
			if ok {
				w.bytes += m.Size() - w.waiting[i].Size()
				w.waiting[i] = m
			}
			return
		}
	case session.SaveMessage:
		// It says what the draft that waits does.
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

// grown is a message that waits, with what was added to it.
func grown(waiting session.Change, d session.SaveDraft) (session.Change, bool) {
	c, ok := waiting.(session.SaveMessage)
	for i := len(c.Message.Parts) - 1; ok && i >= 0; i-- {
		p := &c.Message.Parts[i]
		if p.Type != persistence.TextPart("").Type {
			continue
		}
		if len(p.Text) != d.Start {
			return nil, false // it is there already
		}
		c.Message.Parts = slices.Clone(c.Message.Parts)
		c.Message.Parts[i].Text += d.Text
		return c, true
	}
	return nil, false
}

// merge replaces an session.Change that waits. A message that is new stays so.
func merge(old, later session.Change) session.Change {
	o, ok := old.(session.SaveMessage)
	n, also := later.(session.SaveMessage)
	if ok && also {
		n.Place = o.Place
		if n.With == nil {
			n.With = o.With
		}
		return n
	}
	if d, ok := old.(session.SaveDraft); ok {
		// The later one continues it.
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

// Close lets Run end when all is saved.
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
	w.bytes, w.urgent = 0, false
	clear(w.index)
	return ops, w.closed
}

// gathering is how long the changes that wait still may, zero when one of them may not
// or nothing does.
func (w *Writer) gathering() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 || w.urgent || w.closed {
		return 0
	}
	now := time.Now()
	return now.Truncate(gather).Add(gather).Sub(now)
}

// gather waits while what waits may.
func (w *Writer) gather(ctx context.Context) {
	pause := w.gathering()
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-w.wake:
			if w.gathering() == 0 {
				return
			}
		}
	}
}

// Run saves what is pushed until the writer is closed and all is saved, or ctx
// ends. It returns how many ops were not saved.
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

// Running is a writer that runs by itself, and may outlive its call.
type Running struct {
	done   <-chan struct{} // closed when all is saved, or given up
	giveUp context.CancelFunc
	lost   *atomic.Int64 // changes that were not saved
}

// Start runs the writer until it is closed and all is saved; Join waits for it.
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

// Done is closed when all is saved, or given up.
func (r Running) Done() <-chan struct{} { return r.done }

// IsDone says that all is saved, or given up.
func (r Running) IsDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Join returns when all is saved, or soon after ending is closed, and how many
// changes were not saved.
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

// save tries until the ops are saved. Ops that can never be saved are given up,
// one by one, so that they do not take others with them.
func (w *Writer) save(ctx context.Context, ops []session.Change) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	for {
		err := w.try(ctx, ops)
		if err == nil {
			return nil
		}
		if permanent(err) {
			return w.oneByOne(ctx, ops)
		}
		w.log.Warn("thread not saved, trying again", "error", err, "changes", len(ops))
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (w *Writer) try(ctx context.Context, ops []session.Change) error {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	saved, err := w.thread.Commit(ctx, ops)
	w.tell(saved, err)
	return err
}

func (w *Writer) tell(saved []persistence.Message, err error) {
	if err != nil {
		return
	}
	for _, m := range saved {
		w.saved(m)
	}
}

func (w *Writer) oneByOne(ctx context.Context, ops []session.Change) error {
	for _, o := range ops {
		saved, err := w.thread.CommitOne(ctx, o)
		w.tell(saved, err)
		switch {
		case err == nil:
		case permanent(err):
			w.log.Error("change of the thread lost", "what", o.Key(), "error", err)
		default:
			return w.save(ctx, ops[indexOf(ops, o):])
		}
	}
	return nil
}

func indexOf(ops []session.Change, o session.Change) int {
	for i := range ops {
		if ops[i].Key() == o.Key() {
			return i
		}
	}
	return 0
}

// permanent says that trying again is pointless.
func permanent(err error) bool {
	return errors.Is(err, persistence.ErrConflict) || errors.Is(err, persistence.ErrInvalid) ||
		errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrClosed)
}
