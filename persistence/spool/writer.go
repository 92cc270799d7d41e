// Package spool writes what is said to the database and, while that is unavailable, to a file, so that nothing is lost
// even if the process is killed.
//
// A Writer is the one queue between those who say something and the database. It merges what waits for the same record,
// and groups the changes of all threads into few transactions. If the database does not accept them, or not soon, they
// go to the file, which is synced to disk. So do all later changes, until the file has been written to the database:
// each thread's in order, and the threads in turn, so that one with very many delays no other. The file belongs to one
// process; Recover writes those of dead processes to the database. Applying a change twice has the effect of applying
// it once.
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/persistence"
	"voicebridge/thread"
)

const (
	defaultTimeout = 5 * time.Second
	defaultSlow    = time.Second

	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// ErrStopped means that the Writer is no longer running.
var ErrStopped = errors.New("writer has stopped")

// store is the database.
type store interface {
	ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error)
	Instance() string
}

// lastTry is how long a Writer without a file goes on trying when it ends.
const lastTry = 5 * time.Second

// Config are the settings of a Writer. Only Store is required.
type Config struct {
	Store store
	// Dir is the folder of the file. It should be on a disk that outlives the process; several
	// processes may share it. Without one, what is waiting for the database is lost with the process.
	Dir string
	// Limit is the largest size of the file in bytes; 0 means 256 MiB. What does not fit waits in memory.
	Limit int64
	// Timeout is how long one transaction may take; 0 means 5 s.
	Timeout time.Duration
	// Slow is how long changes may wait for a transaction, and the one before it, before they are also written to the
	// file, so that none are lost if the process is killed then; 0 means 1 s.
	Slow time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Saved is called, never concurrently, with messages that are now in the database. It must not block; it may be nil.
	Saved func(key thread.Key, messages []thread.Message)
	// Observe is called, never concurrently, after each attempt to save changes of a thread. It must not block; it may be
	// nil.
	Observe func(Attempt)
	// Delayed is called with the number of changes that wait in the file because the database fails:
	// whenever that grows, and with 0 once all are in the database. It must not block; it may
	// be nil.
	Delayed func(pending int)
}

// Attempt is one attempt to save changes of a thread.
type Attempt struct {
	Key     thread.Key
	Changes []persistence.Change
	// Due is when they had to be written, Ended when they were safe or the attempt had failed.
	Due, Ended time.Time
	// InFile means that they are safe in the file, but not in the database.
	InFile bool
	// Err is not nil if they are in neither; they will be tried again.
	Err error
}

// Writer writes the changes that this process makes to its threads. Its methods are safe for concurrent use.
type Writer struct {
	cfg   Config
	file  *file // nil if there is none
	queue queue

	// chunk is how many bytes of the file go into one transaction. It shrinks when that fails,
	// since a slow database may manage less.
	chunk int
	// away means that the last attempt to write to the database failed.
	away bool

	// pending and full are what Pending and Full return.
	pending atomic.Int64
	full    atomic.Bool
	stopped chan struct{}
}

// New makes a Writer and its file. What is pushed waits until Run is called.
func New(cfg Config) (*Writer, error) {
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Slow = cmp.Or(cfg.Slow, defaultSlow)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Saved == nil {
		cfg.Saved = func(thread.Key, []thread.Message) {}
	}
	if cfg.Delayed == nil {
		cfg.Delayed = func(int) {}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Attempt) {}
	}
	w := &Writer{cfg: cfg, chunk: batchBytes, stopped: make(chan struct{})}
	w.queue.lanes, w.queue.wake = make(map[thread.Key]*lane), make(chan struct{}, 1)
	if cfg.Dir != "" {
		var err error
		if w.file, err = create(cfg.Dir, cfg.Store.Instance(), cfg.Limit); err != nil {
			return nil, fmt.Errorf("make spool: %w", err)
		}
	}
	return w, nil
}

// Pending returns how many changes are waiting in the file.
func (w *Writer) Pending() int { return int(w.pending.Load()) }

// Full reports whether the last changes could not be written, neither to the database nor to the file,
// as when the disk is full: new calls should be refused.
func (w *Writer) Full() bool { return w.full.Load() }

// Push adds changes of a thread, which are saved together or not at all, after all that were pushed before. It does not
// wait for that. It returns false, and adds none, if too much is waiting, or Run has ended.
func (w *Writer) Push(key thread.Key, changes ...persistence.Change) bool {
	return w.queue.push(maxWaiting, key, changes)
}

// PushLast is Push for what must be said last, whatever is waiting.
func (w *Writer) PushLast(key thread.Key, changes ...persistence.Change) {
	if !w.queue.push(math.MaxInt, key, changes) {
		w.cfg.Logger.Error("changes of a thread lost, they came too late", "thread_id", key.Thread,
			"changes", len(changes))
	}
}

// Save is Push, and returns when the changes are in the database or in the file. After an error they may still be
// saved.
func (w *Writer) Save(ctx context.Context, key thread.Key, changes ...persistence.Change) error {
	if !w.Push(key, changes...) {
		return fmt.Errorf("save changes: %w", ErrFull)
	}
	return w.Await(ctx, key)
}

// Await returns when all that was pushed for a thread is in the database or in the file. The error is ErrStopped, or
// ctx's.
func (w *Writer) Await(ctx context.Context, key thread.Key) error {
	saved := w.queue.saved(key)
	select {
	case <-saved:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("save changes: %w", context.Cause(ctx))
	case <-w.stopped:
	}
	select {
	case <-saved:
		return nil
	default:
		return fmt.Errorf("save changes: %w", ErrStopped)
	}
}

// Run writes until ctx ends. Then it tries once more to save everything, and leaves what is in the file to
// Recover at the next start. The error says how much is neither there nor in the database. It must be called once.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.stopped)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, maxPause
	var retry <-chan time.Time // set during the pause after a failed attempt
	var running *drain         // the current attempt to empty the file
	stuck := false             // what waits can be written nowhere, before the end of the pause
	for {
		if w.inFile() > 0 && running == nil && retry == nil {
			running = w.drain()
		}
		var due <-chan time.Time
		if at := w.queue.next(); !stuck && !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return w.end(running)
		case <-w.queue.wake:
		case <-due:
			var err error
			if running, err = w.serve(time.Now(), running, retry != nil); err != nil {
				stuck = true
				if retry == nil {
					retry = time.After(pause.NextBackOff())
				}
			} else if running == nil && w.inFile() == 0 {
				pause.Reset() // the database has it
			}
		case <-retry:
			retry, stuck = nil, false
		case <-running.over():
			d := running
			running = nil
			if err := w.drained(d); err != nil {
				w.cfg.Logger.Warn("changes of threads are waiting in the spool", "changes", w.file.pending,
					"error", err)
				retry = time.After(pause.NextBackOff())
				break
			}
			retry, stuck = nil, false
			pause.Reset()
		}
	}
}

// inFile returns how many changes are in the file.
func (w *Writer) inFile() int {
	if w.file == nil {
		return 0
	}
	return w.file.pending
}

// serve writes what must be written by a time, or a part of it: to the file if away is set, an attempt to empty it is
// running or it is not empty, else to the database. It returns the attempt that is running afterwards. After an error
// all is as before.
func (w *Writer) serve(by time.Time, running *drain, away bool) (*drain, error) {
	taken := w.queue.take(by)
	if len(taken) == 0 {
		return running, nil
	}
	var err error
	if w.file != nil && (away || running != nil || w.file.pending > 0) {
		err = w.spool(taken)
	} else {
		running, err = w.save(taken)
	}
	if err != nil {
		w.full.Store(w.file != nil)
		w.observe(taken, false, err)
		w.queue.put(taken)
		return running, err
	}
	w.queue.done(taken)
	return running, nil
}

func (w *Writer) observe(taken []batch, inFile bool, err error) {
	now := time.Now()
	for _, b := range taken {
		w.cfg.Observe(Attempt{Key: b.Key, Changes: b.Changes, Due: b.due, Ended: now, InFile: inFile, Err: err})
	}
}

// save writes to the database, or to the file if that fails. If the database is slow, it is written
// to the file, too, and the transaction that is still running is returned as an attempt to write
// that to the database.
func (w *Writer) save(taken []batch) (*drain, error) {
	d := &drain{groups: make([]persistence.ThreadChanges, len(taken)), done: make(chan struct{})}
	due := taken[0].due
	for i, b := range taken {
		d.groups[i] = b.ThreadChanges
		if b.due.Before(due) {
			due = b.due
		}
	}
	go w.run(d)
	var slow <-chan time.Time
	if w.file != nil {
		slow = time.After(time.Until(due.Add(w.cfg.Slow))) // they may have waited for the last transaction
	}
	select {
	case <-d.done:
	case <-slow:
		if w.spool(taken) == nil {
			for _, l := range w.file.waiting { // it was empty
				l.taken = len(l.at)
			}
			return d, nil
		}
		<-d.done
	}
	if d.err != nil {
		w.cfg.Logger.Warn("changes of threads not saved in the database", "error", d.err)
		w.away = true
		return nil, errors.Join(w.spool(taken), w.withoutFile(d.err))
	}
	w.full.Store(false)
	w.observe(taken, false, nil)
	w.saved(d)
	return nil, nil
}

// apply writes changes to the database. It has its own time limit, because they must be saved even
// if their call ends.
func (w *Writer) apply(groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	return w.cfg.Store.ApplyAll(ctx, groups)
}

// withoutFile returns the error of a database if there is no file.
func (w *Writer) withoutFile(err error) error {
	if w.file != nil {
		return nil
	}
	return err
}

// spool writes to the file, if there is one.
func (w *Writer) spool(taken []batch) error {
	if w.file == nil {
		return nil
	}
	records := make([]record, len(taken))
	instance := w.cfg.Store.Instance()
	if instance == w.file.instance {
		instance = ""
	}
	for i, b := range taken {
		records[i] = record{Instance: instance, Owner: b.Key.Owner, Thread: b.Key.Thread, Changes: b.Changes}
	}
	if err := w.file.append(records...); err != nil {
		w.cfg.Logger.Error("changes of threads not written to the spool", "error", err)
		return fmt.Errorf("spool changes: %w", err)
	}
	w.full.Store(false)
	w.observe(taken, true, nil)
	w.report()
	return nil
}

// saved passes on the messages that an attempt has saved.
func (w *Writer) saved(d *drain) {
	for i, a := range d.applied {
		if len(a.Messages) > 0 {
			w.cfg.Saved(d.groups[i].Key, a.Messages)
		}
	}
}

func (w *Writer) report() {
	w.pending.Store(int64(w.file.pending))
	if w.away {
		w.cfg.Delayed(w.file.pending)
	}
}

// drain is one attempt to write changes of the file to the database.
type drain struct {
	groups []persistence.ThreadChanges

	done    chan struct{} // closed when applied and err are set
	applied []persistence.Applied
	err     error
}

// over returns a channel that is closed when the attempt has ended; never, if d is nil.
func (d *drain) over() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.done
}

// drain starts an attempt. The file is read here: it belongs to this goroutine.
func (w *Writer) drain() *drain {
	d := &drain{done: make(chan struct{})}
	d.groups, d.err = w.file.batch(w.chunk)
	if w.file.damage != nil {
		w.cfg.Logger.Error("changes of threads lost, because the spool is damaged", "error", w.file.damage)
		w.file.damage = nil
	}
	if d.err != nil {
		close(d.done)
		return d
	}
	go w.run(d)
	return d
}

func (w *Writer) run(d *drain) {
	d.applied, d.err = w.apply(d.groups)
	close(d.done)
}

// drained handles the end of an attempt.
func (w *Writer) drained(d *drain) error {
	if d.err != nil {
		w.chunk = max(w.chunk/4, 1)
		if !w.away {
			w.away = true
			w.report()
		}
		return d.err
	}
	w.chunk = min(w.chunk*4, batchBytes)
	w.saved(d)
	err := w.file.applied(d.groups)
	w.full.Store(false)
	w.away = false
	if w.report(); w.file.pending == 0 {
		w.cfg.Logger.Info("the spool is empty again")
		w.cfg.Delayed(0)
	}
	return err
}

// end waits for the running attempt, tries once more to save everything, and closes the file.
func (w *Writer) end(running *drain) (err error) {
	if running != nil {
		<-running.done
		err = w.drained(running)
	}
	w.queue.close()
	running = w.serveRest(err != nil)
	for err == nil && w.inFile() > 0 {
		if running == nil {
			running = w.drain()
		}
		<-running.done
		err, running = w.drained(running), nil
	}
	if err != nil {
		w.cfg.Logger.Warn("changes of threads stay in the spool until the next start",
			"changes", w.file.pending, "error", err)
	}
	err = nil
	if lost := w.queue.rest(); lost > 0 {
		err = fmt.Errorf("%d changes of threads were not saved", lost)
	}
	if w.file == nil {
		return err
	}
	return errors.Join(err, w.file.close())
}

// serveRest writes all that waits. Without a file it tries for a while: nothing else will.
func (w *Writer) serveRest(away bool) (running *drain) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, maxPause
	began := time.Now()
	for w.queue.rest() > 0 {
		var err error
		if running, err = w.serve(began.AddDate(1, 0, 0), running, away); err == nil {
			continue
		}
		wait := pause.NextBackOff()
		if w.file != nil || time.Since(began)+wait > lastTry {
			break
		}
		<-time.After(wait)
	}
	return running
}
