package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/persistence"
)

// Limits of a journal.
const (
	maxJournal     = 16 << 20         // waiting bytes above which the thread counts as lost
	journalTimeout = 10 * time.Second // an ended call keeps its thread so long until all is saved
	commitTimeout  = 10 * time.Second
	lastTry        = 5 * time.Second // for what is still not saved when the process ends
)

// threadLog is where a call's thread is written.
type threadLog interface {
	// commit saves all ops, or none and returns an error. It returns the messages
	// as they are saved.
	commit(ctx context.Context, ops []op) ([]persistence.Message, error)
	// commitOne saves one op as well as it can: what is there already is
	// changed, what has lost its place stands at the end.
	commitOne(ctx context.Context, o op) ([]persistence.Message, error)
}

// journal writes what a call says to its thread, in order and without ever
// making the loop wait. While the database is away it keeps everything, up to a
// limit; of several changes of one thing it keeps the last.
type journal struct {
	thread threadLog
	log    *slog.Logger
	// saved is told of each message that was saved.
	saved func(persistence.Message)

	mu      sync.Mutex
	waiting []op
	index   map[string]int // by key into waiting
	bytes   int
	closed  bool
	wake    chan struct{}
}

func newJournal(thread threadLog, log *slog.Logger, saved func(persistence.Message)) *journal {
	return &journal{thread: thread, log: log, saved: saved, index: make(map[string]int), wake: make(chan struct{}, 1)}
}

// push adds ops that are saved together or not at all. It reports false, and adds
// none, when too much waits.
func (j *journal) push(ops ...op) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	more := 0
	for _, o := range ops {
		more += o.size()
	}
	if j.bytes+more > maxJournal {
		return false
	}
	for _, o := range ops {
		j.add(o)
	}
	j.signal()
	return true
}

// add puts one op in its place. j.mu is held.
func (j *journal) add(o op) {
	key := o.key()
	if i, ok := j.index[key]; ok {
		j.bytes += o.size() - j.waiting[i].size()
		j.waiting[i] = merge(j.waiting[i], o)
		return
	}
	j.index[key] = len(j.waiting)
	j.waiting = append(j.waiting, o)
	j.bytes += o.size()
}

// merge replaces an op that waits. A message that is new stays so.
func merge(old, later op) op {
	o, ok := old.(saveMessage)
	n, also := later.(saveMessage)
	if ok && also {
		n.place = o.place
		if n.with == nil {
			n.with = o.with
		}
		return n
	}
	return later
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// close lets run end when all is saved.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.signal()
}

func (j *journal) next() (ops []op, last bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ops, j.waiting = j.waiting, nil
	j.bytes = 0
	clear(j.index)
	return ops, j.closed
}

// run saves what is pushed until the journal is closed and all is saved, or ctx
// ends. It returns how many ops were not saved.
func (j *journal) run(ctx context.Context) (lost int) {
	for {
		ops, last := j.next()
		if len(ops) == 0 {
			if last {
				return 0
			}
			select {
			case <-j.wake:
				continue
			case <-ctx.Done():
				return 0
			}
		}
		if err := j.save(ctx, ops); err != nil {
			rest, _ := j.next()
			return len(ops) + len(rest)
		}
	}
}

// kept is a journal that runs by itself, and may outlive its call.
type kept struct {
	done   <-chan struct{} // closed when all is saved, or given up
	giveUp context.CancelFunc
}

// keep runs the journal until it is closed and all is saved; settle joins it.
func (j *journal) keep() kept {
	ctx, cancel := context.WithCancel(context.Background())
	return kept{giveUp: cancel, done: background(func() {
		if lost := j.run(ctx); lost > 0 {
			j.log.Error("the end of the call was not saved", "changes", lost)
		}
	})}
}

// settle returns when all is saved, or soon after ending is closed.
func (k kept) settle(ending <-chan struct{}) {
	defer k.giveUp()
	select {
	case <-k.done:
		return
	case <-ending:
	}
	await(k.done, lastTry)
	k.giveUp()
	<-k.done
}

// save tries until the ops are saved. Ops that can never be saved are given up,
// one by one, so that they do not take others with them.
func (j *journal) save(ctx context.Context, ops []op) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	for {
		err := j.try(ctx, ops)
		if err == nil {
			return nil
		}
		if permanent(err) {
			return j.oneByOne(ctx, ops)
		}
		j.log.Warn("thread not saved, trying again", "error", err, "changes", len(ops))
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (j *journal) try(ctx context.Context, ops []op) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	saved, err := j.thread.commit(ctx, ops)
	j.tell(saved, err)
	return err
}

func (j *journal) tell(saved []persistence.Message, err error) {
	if err != nil {
		return
	}
	for _, m := range saved {
		j.saved(m)
	}
}

func (j *journal) oneByOne(ctx context.Context, ops []op) error {
	for _, o := range ops {
		saved, err := j.thread.commitOne(ctx, o)
		j.tell(saved, err)
		switch {
		case err == nil:
		case permanent(err):
			j.log.Error("change of the thread lost", "what", o.key(), "error", err)
		default:
			return j.save(ctx, ops[indexOf(ops, o):])
		}
	}
	return nil
}

func indexOf(ops []op, o op) int {
	for i := range ops {
		if ops[i].key() == o.key() {
			return i
		}
	}
	return 0
}

// permanent says that trying again is of no use.
func permanent(err error) bool {
	return errors.Is(err, persistence.ErrConflict) || errors.Is(err, persistence.ErrInvalid) ||
		errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrClosed)
}

// storeLog is the threadLog of a real store.
type storeLog struct {
	store *persistence.Store
	key   persistence.Key
}

func (l storeLog) commit(ctx context.Context, ops []op) (saved []persistence.Message, err error) {
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

func (l storeLog) commitOne(ctx context.Context, o op) ([]persistence.Message, error) {
	saved, err := l.commit(ctx, []op{o})
	m, ok := o.(saveMessage)
	if !ok || err == nil || !permanent(err) {
		return saved, err
	}
	// The message before it is gone, or an earlier try has saved it after all.
	for _, how := range []placing{placeLast, placeKept} {
		m.place = place{how: how}
		if saved, next := l.commit(ctx, []op{m}); next == nil {
			return saved, nil
		}
	}
	return nil, err
}

func apply(b *persistence.Batch, o op) ([]persistence.Message, error) {
	switch o := o.(type) {
	case saveMessage:
		m, err := applyMessage(b, o)
		if err == nil && o.with != nil {
			err = o.with(b)
		}
		return []persistence.Message{m}, err
	case saveTool:
		return nil, b.SaveToolCall(o.call)
	case saveResponse:
		return nil, b.SaveResponse(o.response)
	case saveCall:
		return nil, b.SaveCall(o.call)
	}
	return nil, nil
}

func applyMessage(b *persistence.Batch, o saveMessage) (persistence.Message, error) {
	switch o.place.how {
	case placeLast:
		return b.AppendMessage(o.message)
	case placeAfter:
		return b.InsertMessage(o.message, o.place.after)
	default:
		return b.UpdateMessage(o.message)
	}
}
