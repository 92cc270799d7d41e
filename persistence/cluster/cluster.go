// Package cluster is the process among those that serve one database: which of them are alive, and where they are
// reached.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// leaveTimeout is how long Leave tries to announce the end of this process.
const leaveTimeout = 2 * time.Second

// Link is how the process reaches the database and the others.
type Link interface {
	database.DB
	// WriteFenced is Write for what an instance may write even if others have fenced it.
	WriteFenced(ctx context.Context, fn func(database.Queries) error) error
	// Beat sends a heartbeat, which no writer that waits for something holds up. It returns 0 if the instance was
	// ended.
	Beat(ctx context.Context, at dbtype.Time, id string) (int64, error)
	// CompareClocks finds out how far the machine's clock is from the database's.
	CompareClocks(ctx context.Context) error
}

// Config configures a Cluster.
type Config struct {
	// Instance is the id of this process, which is new for every start.
	Instance string
	// DeadAfter is how long another process must be silent before this one takes it for dead; 0 means 15 s.
	DeadAfter time.Duration
	Logger    *slog.Logger
}

// Cluster is the process among others. It is safe for concurrent use.
type Cluster struct {
	db      Link
	log     *slog.Logger
	members *members
	serving atomic.Bool

	address   func() Address // nil until others reach the process
	told      sync.Mutex     // held while the row gets the address
	announced announcement
}

// announcement is what the row of an instance says.
type announcement struct {
	instance string
	Address
}

// New returns the Cluster of a process that does not serve yet.
func New(db Link, cfg Config) *Cluster {
	return &Cluster{db: db, log: cfg.Logger, members: newMembers(cfg.Instance, cfg.DeadAfter)}
}

// Instance returns the id of this process in the records that it writes. Rejoin changes it.
func (c *Cluster) Instance() string { return c.members.id() }

// Serving reports whether Join has succeeded.
func (c *Cluster) Serving() bool { return c.serving.Load() }

// Join makes the process one that serves, and finds out about the others.
func (c *Cluster) Join(ctx context.Context) error {
	if err := c.join(ctx, c.Instance()); err != nil {
		return err
	}
	c.serving.Store(true)
	if !c.db.Shared() {
		return nil
	}
	return c.Look(ctx)
}

// join creates the row of this instance.
func (c *Cluster) join(ctx context.Context, id string) error {
	if err := c.db.CompareClocks(ctx); err != nil {
		return err
	}
	err := c.db.WriteFenced(ctx, func(q database.Queries) error {
		at := dbtype.At(c.db.Now())
		return q.JoinInstance(ctx,
			pgdb.JoinInstanceParams{ID: id, Host: c.members.host, Process: c.members.process, StartedAt: at})
	})
	if errors.Is(c.db.Fail("", err), database.ErrConflict) {
		return fmt.Errorf("another process serves the database as instance %q", id)
	}
	return err
}

// Leave announces the end of this instance. If that fails, others find out by themselves.
func (c *Cluster) Leave() {
	if !c.Serving() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	at := dbtype.At(c.db.Now())
	if err := c.db.WriteFenced(ctx, func(q database.Queries) error {
		return q.LeaveInstance(ctx, &at, c.Instance())
	}); err != nil {
		c.log.Warn("end of this process not announced", "error", err)
	}
}

// Fenced returns a channel that is closed when other processes took this one for dead, because it did not reach the
// database for Config.DeadAfter, and have closed what it had open. From then on writes fail with ErrFenced. The caller
// then ends its calls and turns in order and calls Rejoin, after which Fenced returns a new channel.
func (c *Cluster) Fenced() <-chan struct{} { return c.members.done() }

// Rejoin lets a fenced process go on as a new instance.
func (c *Cluster) Rejoin(ctx context.Context) error {
	// The row comes first: writing under an id without a row would look fenced.
	id := database.NewID()
	if err := c.join(ctx, id); err != nil {
		return c.db.Fail("rejoin database", err)
	}
	c.members.renew(id)
	return c.db.Fail("rejoin database", c.announce(ctx))
}

// Hold keeps others from fencing this instance while a transaction writes.
func (c *Cluster) Hold(ctx context.Context, q database.Queries) error {
	id := c.Instance()
	_, err := q.HoldInstance(ctx, id)
	if database.IsMissing(err) {
		c.members.lost(id, c.log)
		return database.ErrFenced
	}
	return err
}

// Look takes note of which instances are alive.
func (c *Cluster) Look(ctx context.Context) error {
	at := time.Now() // monotonic, and taken before the query, so that it is never later than the result
	rows, err := c.db.Read().ListInstances(ctx)
	if err == nil {
		c.members.look(rows, at)
	}
	return err
}

// Announce tells other processes where they reach this one, now and whenever that changes. While the database is away,
// they learn it later.
func (c *Cluster) Announce(ctx context.Context, address func() Address) {
	c.told.Lock()
	c.address = address
	c.told.Unlock()
	if err := c.announce(ctx); err != nil {
		c.log.Warn("other processes do not know yet where this one is", "error", err)
	}
}

// announce writes the address into the row of this instance unless it is there.
func (c *Cluster) announce(ctx context.Context) error {
	c.told.Lock()
	defer c.told.Unlock()
	if c.address == nil {
		return nil
	}
	now := announcement{c.Instance(), c.address()}
	if now == c.announced {
		return nil
	}
	err := c.db.WriteFenced(ctx, func(q database.Queries) error {
		return q.SetInstanceAddress(ctx, now.URL, now.Certificate, now.instance)
	})
	if err == nil {
		c.announced = now
	}
	return err
}

// Reach returns where another instance is reached. ErrGone means that it is known to be dead.
func (c *Cluster) Reach(ctx context.Context, instance string) (Address, error) {
	if err := c.Look(ctx); err != nil {
		return Address{}, c.db.Fail("find another process", err)
	}
	if _, dead := c.Dead(instance); dead {
		return Address{}, database.ErrGone
	}
	return c.members.address(instance), nil
}

// Now returns the database's time, by which all processes go.
func (c *Cluster) Now() time.Time { return c.db.Now() }

// Others returns the other instances that serve the database and are not known to be dead.
func (c *Cluster) Others(ctx context.Context) ([]string, error) {
	if err := c.Look(ctx); err != nil {
		return nil, c.db.Fail("find the other processes", err)
	}
	return c.members.others(), nil
}

// Dead reports whether the instance may be fenced, and its count of heartbeats then. An instance without a row never
// served, or died long ago.
func (c *Cluster) Dead(instance string) (beats int64, dead bool) { return c.members.dead(instance) }

// Fence keeps an instance from writing that was dead when it had sent that many heartbeats. It returns false, and
// changes nothing, if it has sent another one.
func (c *Cluster) Fence(
	ctx context.Context, q database.Queries, instance string, beats int64,
) (fenced bool, err error) {
	now, err := q.LockInstance(ctx, instance)
	switch {
	case database.IsMissing(err):
		return true, nil // it never served
	case err != nil:
		return false, err
	case now != beats && c.db.Shared():
		return false, nil
	}
	_, err = q.EndInstance(ctx, new(dbtype.At(c.db.Now())), instance, now)
	return true, err
}

// KeepBeating sends heartbeats until ctx ends.
func (c *Cluster) KeepBeating(ctx context.Context) {
	c.every(ctx, "telling others that this process is alive", c.beat)
}

// beat sends a heartbeat.
func (c *Cluster) beat(ctx context.Context) error {
	id := c.Instance()
	n, err := c.db.Beat(ctx, dbtype.At(c.db.Now()), id)
	if err == nil && n == 0 {
		c.members.lost(id, c.log)
		return database.ErrFenced
	}
	return err
}

// KeepLooking checks who else is alive, and the clock, until ctx ends. A query that hangs must not hold up heartbeats.
func (c *Cluster) KeepLooking(ctx context.Context) {
	c.every(ctx, "checking which other processes are alive", func(ctx context.Context) error {
		return cmp.Or(c.Look(ctx), c.db.CompareClocks(ctx), c.announce(ctx))
	})
}

// every does something with each heartbeat until ctx ends, and logs failures of that work.
func (c *Cluster) every(ctx context.Context, work string, do func(context.Context) error) {
	tick := time.Tick(beatEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		doing, cancel := context.WithTimeout(ctx, max(beatEvery, c.members.deadAfter/3))
		err := do(doing)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.log.Warn("a process of the cluster could not do its part", "work", work, "error", err)
		}
	}
}
