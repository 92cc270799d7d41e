package persistence

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

const (
	// beatEvery is how often a serving process sends a heartbeat.
	beatEvery = 3 * time.Second
	// defaultDeadAfter is the default of Options.DeadAfter: five heartbeats.
	defaultDeadAfter = 15 * time.Second
	// forgetAfter is how long a dead instance's row stays.
	forgetAfter = 24 * time.Hour
)

// lease holds what this process knows about which instances are alive. It compares no clocks: an
// instance is dead if its count of heartbeats has not changed for long enough by this process's
// clock, while this process kept looking; or at once if it was a process of this machine and that is
// gone.
type lease struct {
	deadAfter time.Duration
	every     time.Duration
	log       *slog.Logger

	// host and process are thisProcess.
	host, process string

	mu        sync.Mutex
	instance  string
	fenced    chan struct{} // closed when others have fenced this instance
	checkedAt time.Time     // the last successful check
	seen      map[string]sighting
}

// sighting is when an instance was first seen with this number of heartbeats.
type sighting struct {
	beats     int64
	firstSeen time.Time
	ended     bool // it announced its end, or its process is gone
}

func newLease(opts Options) *lease {
	l := &lease{deadAfter: cmp.Or(opts.DeadAfter, defaultDeadAfter), every: beatEvery, log: opts.Logger, instance: opts.Instance, fenced: make(chan struct{})}
	l.host, l.process = thisProcess()
	return l
}

// limit is how long a heartbeat may take, and a check.
func (l *lease) limit() time.Duration { return max(l.every, l.deadAfter/3) }

func (l *lease) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.instance
}

func (l *lease) done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fenced
}

// lost records that others have fenced the instance.
func (l *lease) lost(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.fenced:
		return
	default:
	}
	if l.instance == instance {
		l.log.Error("other processes took this one for dead", "instance", instance)
		close(l.fenced)
	}
}

// renew gives the process a new id.
func (l *lease) renew(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instance, l.fenced = instance, make(chan struct{})
}

// look takes note of the rows of all instances, which were read no earlier than at.
func (l *lease) look(rows []pgdb.Instance, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// An instance that was away itself cannot tell who is dead: perhaps all lost the database. The
	// margin is for heartbeats that were up to two intervals old when it last looked.
	if at.Sub(l.checkedAt) > max(l.deadAfter-2*l.every, 2*l.every) {
		l.seen = nil
	}
	l.checkedAt = at
	seen := make(map[string]sighting, len(rows))
	for _, r := range rows {
		s, known := l.seen[r.ID]
		if !known || s.beats != r.Beats {
			s = sighting{beats: r.Beats, firstSeen: at}
		}
		s.ended = r.EndedAt != nil || r.Host != "" && r.Host == l.host && processGone(r.Process)
		seen[r.ID] = s
	}
	l.seen = seen
}

// dead reports whether the instance may be fenced, and its count of heartbeats then. An instance
// without a row never served, or died long ago.
func (l *lease) dead(instance string) (beats int64, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, known := l.seen[instance]
	if !known || s.ended {
		return s.beats, true
	}
	return s.beats, l.checkedAt.Sub(s.firstSeen) >= l.deadAfter
}

// join creates the row of this instance.
func (s *Store) join(ctx context.Context, id string) error {
	if err := s.compareClocks(ctx); err != nil {
		return err
	}
	err := s.eng.write(ctx, func(q queries) error {
		at := dbtype.At(s.now())
		return q.JoinInstance(ctx, pgdb.JoinInstanceParams{ID: id, Host: s.lease.host, Process: s.lease.process, StartedAt: at})
	})
	if err != nil && s.eng.problem(err) == problemUnique {
		return fmt.Errorf("another process serves the database as instance %q", id)
	}
	return err
}

// beat sends a heartbeat.
func (s *Store) beat(ctx context.Context) (err error) {
	id, n := s.lease.id(), int64(0)
	err = s.measure(ctx, func() error {
		n, err = s.eng.beat(ctx, pgdb.BeatParams{ID: id, BeatAt: dbtype.At(s.now())})
		return err
	})
	if err == nil && n == 0 {
		s.lease.lost(id)
		return ErrFenced
	}
	return err
}

func (s *Store) look(ctx context.Context) error {
	at := time.Now() // monotonic, and taken before the query, so that it is never later than the result
	rows, err := s.eng.read().ListInstances(ctx)
	if err == nil {
		s.lease.look(rows, at)
	}
	return err
}

func (s *Store) compareClocks(ctx context.Context) error {
	changed, err := s.clock.compare(ctx, s.eng.ping)
	if changed {
		s.log.Warn("this machine's clock differs from the database's, which counts for what processes share",
			"behind", time.Duration(s.clock.ahead.Load()).Round(time.Millisecond))
	}
	return err
}

// keepBeating sends heartbeats until ctx ends.
func (s *Store) keepBeating(ctx context.Context) {
	tick := time.Tick(s.lease.every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		beatCtx, cancel := context.WithTimeout(ctx, s.lease.limit())
		err := s.beat(beatCtx)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Warn("could not tell others that this process is alive", "error", err)
		}
	}
}

// keepLooking checks who else is alive, and the clock, until ctx ends. A query that hangs must not hold up heartbeats.
func (s *Store) keepLooking(ctx context.Context) {
	tick := time.Tick(s.lease.every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		checkCtx, cancel := context.WithTimeout(ctx, s.lease.limit())
		err := cmp.Or(s.look(checkCtx), s.compareClocks(checkCtx))
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Warn("could not check which other processes are alive", "error", err)
		}
	}
}

// Fenced returns a channel that is closed when other processes took this one for dead, because it
// did not reach the database for Options.DeadAfter, and have closed what it had open. From then on
// writes fail with ErrFenced. The caller then ends its calls and turns in order and calls Rejoin,
// after which Fenced returns a new channel.
func (s *Store) Fenced() <-chan struct{} { return s.lease.done() }

// Rejoin lets a fenced process go on as a new instance.
func (s *Store) Rejoin(ctx context.Context) error {
	// The row comes first: writing under an id without a row would look fenced.
	id := NewID()
	if err := s.join(ctx, id); err != nil {
		return s.fail("rejoin database", err)
	}
	s.lease.renew(id)
	return nil
}

// hold keeps others from fencing this instance while a transaction writes.
func (s *Store) hold(ctx context.Context, q queries) error {
	id := s.lease.id()
	_, err := q.HoldInstance(ctx, pgdb.HoldInstanceParams{ID: id})
	if database.IsMissing(err) {
		s.lease.lost(id)
		return ErrFenced
	}
	return err
}
