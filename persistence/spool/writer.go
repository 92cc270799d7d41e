// Package spool writes the changes of calls to the database and, while that is unavailable, to a
// file, so that nothing is lost even if the process is killed.
//
// A Writer groups the changes of all calls into few transactions. If the database does not accept
// them, or not soon, they go to the file, which is synced to disk before Commit returns. So do all
// later changes, until the file has been written to the database, in order. The file belongs to one
// process; Recover writes those of dead processes to the database. Applying a change twice has the
// effect of applying it once.
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/persistence"
	"voicebridge/thread"
)

const (
	defaultTimeout = 5 * time.Second
	defaultSlow    = time.Second
	// batchBytes is how much goes into one transaction.
	batchBytes = 256 << 10

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

// Config are the settings of a Writer. Store and Dir are required.
type Config struct {
	Store store
	// Dir is the folder of the file. It should be on a disk that outlives the process; several
	// processes may share it.
	Dir string
	// Limit is the largest size of the file in bytes; 0 means 256 MiB. Changes that do not fit
	// fail with ErrFull.
	Limit int64
	// Timeout is how long one transaction may take; 0 means 5 s.
	Timeout time.Duration
	// Slow is how long a transaction, and the one before it, may take before its changes are also
	// written to the file, so that none are lost if the process is killed then; 0 means 1 s.
	Slow time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Saved is called, never concurrently, with messages that were in the file and are now in the
	// database. It must not block; it may be nil.
	Saved func(key thread.Key, messages []thread.Message)
	// Delayed is called with the number of changes that wait in the file because the database has
	// failed: whenever that grows, and with 0 once all are in the database. It must not block; it may
	// be nil.
	Delayed func(pending int)
}

// Writer writes the changes of all calls of this process. Its methods are safe for concurrent use.
type Writer struct {
	cfg  Config
	file *file

	// chunk is how many bytes of the file go into one transaction. It shrinks when that fails,
	// since a slow database may manage less.
	chunk int
	// away means that the last attempt to write to the database failed.
	away bool
	// took is how long the last transaction took. What comes next has waited for it.
	took time.Duration

	// pending and full are what Pending and Full return.
	pending atomic.Int64
	full    atomic.Bool
	stopped chan struct{}
	wake    chan struct{}

	mu      sync.Mutex
	waiting []*request
}

// request is a Commit that is waiting.
type request struct {
	changes persistence.ThreadChanges
	done    chan struct{} // closed when result and err are set
	result  Result
	err     error
}

// Result is the result of a Commit.
type Result struct {
	persistence.Applied
	// Spooled means that the changes are safe in the file; Applied is empty.
	Spooled bool
}

// New makes a Writer and its file. Commits wait until Run is called.
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
	f, err := create(cfg.Dir, cfg.Store.Instance(), cfg.Limit)
	if err != nil {
		return nil, fmt.Errorf("make spool: %w", err)
	}
	return &Writer{cfg: cfg, file: f, chunk: batchBytes, stopped: make(chan struct{}), wake: make(chan struct{}, 1)}, nil
}

// Pending returns how many changes are waiting in the file.
func (w *Writer) Pending() int { return int(w.pending.Load()) }

// Full reports whether the last changes could not be written, neither to the database nor to the file,
// as when the disk is full: new calls should be refused.
func (w *Writer) Full() bool { return w.full.Load() }

// Commit saves changes of a thread, all or none, and returns when they are in the database or in
// the file. Changes of one thread keep the order in which their Commits began. After an error, such
// as ErrFull, they are in neither and may be retried; after ctx's error they may have been saved.
func (w *Writer) Commit(ctx context.Context, key thread.Key, changes []persistence.Change) (Result, error) {
	r := &request{changes: persistence.ThreadChanges{Key: key, Changes: changes}, done: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, r)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("commit changes: %w", context.Cause(ctx))
	case <-w.stopped:
		select {
		case <-r.done:
			return r.result, r.err
		default:
			return Result{}, fmt.Errorf("commit changes: %w", ErrStopped)
		}
	}
}

// Run writes until ctx ends. Then it tries once more to empty the file, and leaves the rest to
// Recover at the next start. It must be called once.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.stopped)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, maxPause
	var retry <-chan time.Time // set during the pause after a failed attempt
	var running *drain         // the current attempt
	for {
		if w.file.pending > 0 && running == nil && retry == nil {
			running = w.drain()
		}
		select {
		case <-ctx.Done():
			return w.end(running)
		case <-w.wake:
			running = w.serve(running, retry != nil)
		case <-retry:
			retry = nil
		case <-running.over():
			d := running
			running = nil
			if err := w.drained(d); err != nil {
				w.cfg.Logger.Warn("changes of calls are waiting in the spool", "changes", w.file.pending, "error", err)
				retry = time.After(pause.NextBackOff())
				break
			}
			pause.Reset()
		}
	}
}

// take removes and returns waiting requests, as many as one transaction should hold.
func (w *Writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(w.waiting) && size < batchBytes {
		for _, c := range w.waiting[n].changes.Changes {
			size += c.Size()
		}
		n++
	}
	taken := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return taken
}

// serve answers all waiting requests. They go to the file if away is set, an attempt is running or
// the file is not empty, else to the database. It returns the attempt that is running afterwards.
func (w *Writer) serve(running *drain, away bool) *drain {
	for requests := w.take(); len(requests) > 0; requests = w.take() {
		var err error
		if away || running != nil || w.file.pending > 0 {
			err = w.spool(requests)
		} else {
			running, err = w.save(requests)
		}
		for _, r := range requests {
			r.err = err
			close(r.done)
		}
	}
	return running
}

// save writes requests to the database, or to the file if that fails. If the database is slow, they
// also go to the file, and the transaction that is still running is returned as an attempt to write
// them to the database.
func (w *Writer) save(requests []*request) (*drain, error) {
	d := &drain{groups: make([]persistence.ThreadChanges, len(requests)), done: make(chan struct{})}
	for i, r := range requests {
		d.groups[i] = r.changes
	}
	go w.run(d)
	select {
	case <-d.done:
	case <-time.After(w.cfg.Slow - w.took):
		if w.spool(requests) == nil {
			d.next = w.file.tail
			return d, nil
		}
		<-d.done
	}
	w.took = d.took
	if d.err != nil {
		w.cfg.Logger.Warn("changes of calls not saved in the database", "error", d.err)
		w.away = true
		return nil, w.spool(requests)
	}
	for i, r := range requests {
		r.result.Applied = d.applied[i]
	}
	w.full.Store(false)
	return nil, nil
}

// apply writes changes to the database. It has its own time limit, because they must be saved even
// if their call ends.
func (w *Writer) apply(groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	return w.cfg.Store.ApplyAll(ctx, groups)
}

// spool writes requests to the file.
func (w *Writer) spool(requests []*request) error {
	records := make([]record, len(requests))
	instance := w.cfg.Store.Instance()
	if instance == w.file.instance {
		instance = ""
	}
	for i, r := range requests {
		key := r.changes.Key
		records[i] = record{Instance: instance, Owner: key.Owner, Thread: key.Thread, Changes: r.changes.Changes}
	}
	err := w.file.append(records...)
	w.full.Store(err != nil)
	if err != nil {
		w.cfg.Logger.Error("changes of calls not written to the spool", "error", err)
		return fmt.Errorf("spool changes: %w", err)
	}
	for _, r := range requests {
		r.result.Spooled = true
	}
	w.report()
	return nil
}

func (w *Writer) report() {
	w.pending.Store(int64(w.file.pending))
	if w.away {
		w.cfg.Delayed(w.file.pending)
	}
}

// drain is one attempt to write the head of the file to the database.
type drain struct {
	groups []persistence.ThreadChanges
	next   int64 // offset in the file after the groups

	done    chan struct{} // closed when the rest is set
	applied []persistence.Applied
	err     error
	took    time.Duration
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
	d.groups, d.next, d.err = w.file.batch(w.chunk)
	if w.file.damage != nil {
		w.cfg.Logger.Error("changes of calls lost, because the spool is damaged", "error", w.file.damage)
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
	begun := time.Now()
	d.applied, d.err = w.apply(d.groups)
	d.took = time.Since(begun)
	close(d.done)
}

// drained handles the end of an attempt.
func (w *Writer) drained(d *drain) error {
	w.took = d.took
	if d.err != nil {
		w.chunk = max(w.chunk/4, 1)
		if !w.away {
			w.away = true
			w.report()
		}
		return d.err
	}
	w.chunk = min(w.chunk*4, batchBytes)
	for i, a := range d.applied {
		if len(a.Messages) > 0 {
			w.cfg.Saved(d.groups[i].Key, a.Messages)
		}
	}
	err := w.file.applied(d.groups, d.next)
	w.full.Store(false)
	w.pending.Store(int64(w.file.pending))
	if w.file.pending == 0 {
		w.away = false
		w.cfg.Logger.Info("the spool is empty again")
		w.cfg.Delayed(0)
	}
	return err
}

// end waits for the running attempt, tries once more unless that failed, and closes the file.
func (w *Writer) end(running *drain) (err error) {
	if running != nil {
		<-running.done
		err = w.drained(running)
	}
	running = w.serve(nil, err != nil)
	for err == nil && w.file.pending > 0 {
		if running == nil {
			running = w.drain()
		}
		<-running.done
		err, running = w.drained(running), nil
	}
	if err != nil {
		w.cfg.Logger.Warn("changes of calls stay in the spool until the next start", "changes", w.file.pending, "error", err)
	}
	return w.file.close()
}
