package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
)

// Limits of a writer.
const (
	maxWaiting    = 16 << 20         // waiting bytes above which the thread counts as lost
	saveTimeout   = 10 * time.Second // an ended call keeps its thread so long until all is saved
	commitTimeout = 10 * time.Second
	lastTry       = 5 * time.Second // for what is still not saved when the process ends
)

// threadLog is where a call's thread is written.
type threadLog interface {
	// commit saves all ops, or none and returns an error. It returns the messages
	// as they are saved.
	commit(ctx context.Context, ops []session.Change) ([]persistence.Message, error)
	// commitOne saves one session.Change as well as it can: what is there already is
	// changed; what has lost its place goes to the end.
	commitOne(ctx context.Context, o session.Change) ([]persistence.Message, error)
}

// writer writes what a call says to its thread, in order and without ever
// making the loop wait. While the database is away it keeps everything, up to a
// limit, and only the last of several changes to one thing.
type writer struct {
	thread threadLog
	log    *slog.Logger
	// saved is told of each message that was saved.
	saved func(persistence.Message)

	mu      sync.Mutex
	waiting []session.Change
	index   map[string]int // by key into waiting
	bytes   int
	closed  bool
	wake    chan struct{}
}

func newWriter(thread threadLog, log *slog.Logger, saved func(persistence.Message)) *writer {
	return &writer{thread: thread, log: log, saved: saved, index: make(map[string]int), wake: make(chan struct{}, 1)}
}

// push adds ops that are saved together or not at all. It reports false, and adds
// none, when too much waits.
func (w *writer) push(ops ...session.Change) bool { return w.add(maxWaiting, ops) }

// pushLast adds what a call says at its end, which has room always.
func (w *writer) pushLast(ops ...session.Change) { w.add(math.MaxInt, ops) }

func (w *writer) add(limit int, ops []session.Change) bool {
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
	}
	w.signal()
	return true
}

// add puts one session.Change in its place. w.mu is held.
func (w *writer) put(o session.Change) {
	key := o.Key()
	if i, ok := w.index[key]; ok {
		w.bytes += o.Size() - w.waiting[i].Size()
		w.waiting[i] = merge(w.waiting[i], o)
		return
	}
	w.index[key] = len(w.waiting)
	w.waiting = append(w.waiting, o)
	w.bytes += o.Size()
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
	return later
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close lets run end when all is saved.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.signal()
}

func (w *writer) next() (ops []session.Change, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops, w.waiting = w.waiting, nil
	w.bytes = 0
	clear(w.index)
	return ops, w.closed
}

// run saves what is pushed until the writer is closed and all is saved, or ctx
// ends. It returns how many ops were not saved.
func (w *writer) run(ctx context.Context) (lost int) {
	for {
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

// running is a writer that runs by itself, and may outlive its call.
type running struct {
	done   <-chan struct{} // closed when all is saved, or given up
	giveUp context.CancelFunc
	lost   *atomic.Int64 // changes that were not saved
}

// start runs the writer until it is closed and all is saved; settle joins it.
func (w *writer) start() running {
	ctx, cancel := context.WithCancel(context.Background())
	lost := new(atomic.Int64)
	return running{giveUp: cancel, lost: lost, done: background(func() {
		if n := w.run(ctx); n > 0 {
			lost.Store(int64(n))
			w.log.Error("end of the call not saved", "changes", n)
		}
	})}
}

// settle returns when all is saved, or soon after ending is closed, and how many
// changes were not saved.
func (r running) settle(ending <-chan struct{}) (lost int64) {
	defer r.giveUp()
	select {
	case <-r.done:
	case <-ending:
		await(r.done, lastTry)
		r.giveUp()
		<-r.done
	}
	return r.lost.Load()
}

// save tries until the ops are saved. Ops that can never be saved are given up,
// one by one, so that they do not take others with them.
func (w *writer) save(ctx context.Context, ops []session.Change) error {
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

func (w *writer) try(ctx context.Context, ops []session.Change) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	saved, err := w.thread.commit(ctx, ops)
	w.tell(saved, err)
	return err
}

func (w *writer) tell(saved []persistence.Message, err error) {
	if err != nil {
		return
	}
	for _, m := range saved {
		w.saved(m)
	}
}

func (w *writer) oneByOne(ctx context.Context, ops []session.Change) error {
	for _, o := range ops {
		saved, err := w.thread.commitOne(ctx, o)
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

// saveLeg is the change of the record of an upstream session.
type saveLeg struct{ leg persistence.UpstreamLeg }

// Key implements [session.Change].
func (c saveLeg) Key() string { return fmt.Sprintf("leg %d", c.leg.Generation) }

// Size implements [session.Change].
func (saveLeg) Size() int { return 512 }

// storeLog is the threadLog of a real store.
type storeLog struct {
	store *persistence.Store
	key   persistence.Key
}

func (l storeLog) commit(ctx context.Context, ops []session.Change) (saved []persistence.Message, err error) {
	err = l.store.Batch(ctx, l.key, func(b *persistence.Batch) error {
		saved = saved[:0]
		for _, o := range ops {
			m, err := apply(b, o)
			if err != nil {
				return err
			}
			saved = append(saved, m...)
		}
		return nil
	})
	return saved, err
}

func (l storeLog) commitOne(ctx context.Context, o session.Change) ([]persistence.Message, error) {
	saved, err := l.commit(ctx, []session.Change{o})
	m, ok := o.(session.SaveMessage)
	if !ok || err == nil || !permanent(err) {
		return saved, err
	}
	// The message before it is gone, or an earlier try has saved it after all.
	for _, how := range []session.Placing{session.PlaceLast, session.PlaceKept} {
		m.Place = session.Place{How: how}
		if saved, next := l.commit(ctx, []session.Change{m}); next == nil {
			return saved, nil
		}
	}
	return nil, err
}

func apply(b *persistence.Batch, o session.Change) ([]persistence.Message, error) {
	switch o := o.(type) {
	case session.SaveMessage:
		m, err := applyMessage(b, o)
		if err == nil && o.With != nil {
			err = o.With(b)
		}
		return []persistence.Message{m}, err
	case session.SaveTool:
		err := b.SaveToolCall(o.Call)
		if err == nil && o.Approval != nil {
			err = b.SettleApproval(*o.Approval)
		}
		return nil, err
	case session.SaveResponse:
		return nil, b.SaveResponse(o.Response)
	case saveLeg:
		return nil, b.SaveLeg(o.leg)
	case session.SaveCall:
		return nil, b.SaveCall(o.Call)
	}
	return nil, nil
}

func applyMessage(b *persistence.Batch, o session.SaveMessage) (persistence.Message, error) {
	switch o.Place.How {
	case session.PlaceLast:
		return b.AppendMessage(o.Message)
	case session.PlaceAfter:
		return b.InsertMessage(o.Message, o.Place.After)
	default:
		return b.UpdateMessage(o.Message)
	}
}
