// Package persistence keeps threads, their messages and records of what happened in them, in SQLite
// or in PostgreSQL, and notifies watchers of changes. Every request names an owner; another owner's
// thread is ErrNotFound.
//
// A Store is safe for concurrent use. It returns what was saved, which may differ from what it was
// given: characters that a database cannot store are removed or replaced.
package persistence

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/assistant"
	"voicebridge/persistence/admission"
	"voicebridge/persistence/assistants"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/extractions"
	"voicebridge/persistence/grants"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/recordings"
	"voicebridge/persistence/records"
	"voicebridge/persistence/shares"
)

// leaveTimeout is how long Close tries to announce the end of this process.
const leaveTimeout = 2 * time.Second

// Options are the settings of a Store. The zero value is useful.
type Options struct {
	// Logger gets the errors that no caller gets; nil discards them.
	Logger *slog.Logger
	// Instance is the id of this process. It must be new for every start: what is open under an id
	// that nobody serves counts as left by a dead process. Empty means a new UUID.
	Instance string
	// NoMigrate leaves the schema alone until Serve.
	NoMigrate bool
	// OnMigration, unless it is nil, is called before Open applies a migration: with its name, its number among those
	// that are missing, and theirs.
	OnMigration func(name string, number, of int)
	// DeadAfter is how long another process must be silent before this one takes it for dead; 0
	// means 15 s. All processes of a database should use the same value.
	DeadAfter time.Duration
	// Clock is the machine's clock; nil means time.Now. Stores with other clocks are for tests.
	Clock func() time.Time
	// NoListen does without PostgreSQL's notifications, for poolers that do not pass them on: what
	// other processes write is then found by polling, up to a second later. Serve also detects
	// such poolers, which takes it up to some seconds.
	NoListen bool
	// Connections to PostgreSQL, not counting those for notifications and heartbeats: half for reading, half for
	// writing; 0: pool_max_conns of the URL for each, or without it the larger of 4 and the number of processors.
	MaxConns int `yaml:"max_connections" min:"0" max:"1000"`
	// Assistants are the operator's.
	Assistants []assistant.Assistant
	// OnWrite is called after each write transaction that was saved, or that failed because the
	// database was unavailable, with its duration. It must return at once; it may be nil.
	OnWrite func(took time.Duration, saved bool)
	// OnLost is called when ApplyAll has lost changes of a thread that still exists, and by Lose. It
	// must return at once; it may be nil.
	OnLost func(changes int)
	// Rescue brings the changes into the database that dead processes could not write and left within reach. Recover
	// calls it first, because what they said comes before what others say next. It may be nil.
	Rescue func(ctx context.Context, s *Store) error
}

// Store is one database.
type Store struct {
	// Admission keeps what decides who may come in.
	Admission *admission.Store
	// Assistants keeps the assistants of owners.
	Assistants *assistants.Store
	// Grants keeps what owners have been granted at MCP servers.
	Grants *grants.Store
	// Queued keeps the messages that wait until their thread is free.
	Queued *queued.Store
	// Records keeps calls, tool calls and the uses of models.
	Records *records.Store
	// Pictures keeps the images of threads.
	Pictures *pictures.Store
	// Recordings keeps what is known of the recordings of calls.
	Recordings *recordings.Store
	// Hooks keeps what is to be delivered to hooks.
	Hooks *hooked.Store
	// Extractions keeps what was found in calls after their end.
	Extractions *extractions.Store
	// Shares keeps which threads may be read by a link.
	Shares *shares.Store
	// Cluster is this process among those that serve the database.
	Cluster *cluster.Cluster

	eng engine
	hub *hub
	// outbox holds what is on its way into the event log and to other instances.
	outbox *outbox
	log    *slog.Logger
	clock  clock
	// shared is set if other processes may serve the database too.
	shared bool
	// pooled is set if there is a pooler in front of the database.
	pooled bool
	// noListen and noMigrate are Options.NoListen and NoMigrate.
	noListen, noMigrate bool

	onWrite func(took time.Duration, saved bool)
	onLost  func(changes int)
	// rescue is Options.Rescue; rescuing holds a value while it runs.
	rescue   func(ctx context.Context, s *Store) error
	rescuing chan struct{}
	// poll is how often a watcher looks for changes without a hint, as a time.Duration; zero means
	// never, if no other process writes.
	poll atomic.Int64

	health  health
	closing sync.Once
	closed  chan struct{}
	// running counts the functions that run in the background.
	running sync.WaitGroup
	sweeper sweeper
}

// sweeper erases deleted threads, forgets what is old, and fills SQLite's search index.
type sweeper struct {
	s    *Store
	wake chan struct{} // holds one signal
}

// Close ends all watches with ErrClosed, announces that this process no longer serves, releases the
// lock and closes the database. Further calls do nothing.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		s.outbox.end(leaveTimeout)
		s.running.Wait()
		s.Cluster.Leave()
		err = s.eng.close()
	})
	return err
}

// Ping returns an error unless the database answers and has its tables.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.eng.ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// Instance returns the id of this process in the records that it writes. Rejoin changes it.
func (s *Store) Instance() string { return s.Cluster.Instance() }

// Pooled reports whether a pooler such as PgBouncer is in front of the database: then no statements
// are prepared, and what other processes write is found by polling.
func (s *Store) Pooled() bool { return s.pooled }

// KeepsOrder reports whether the JSON in messages keeps the order of its keys. PostgreSQL has its own.
func (s *Store) KeepsOrder() bool { return !s.shared }

// Dropped counts the pieces of text that a slow watcher had to read from the database, and the events that could not be
// saved.
func (s *Store) Dropped() int64 { return s.hub.dropped.Load() }

// background runs a function in a goroutine. Its context ends with Close, which waits for it.
func (s *Store) background(run func(context.Context)) {
	s.running.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			defer cancel()
			select {
			case <-s.closed:
			case <-ctx.Done():
			}
		}()
		run(ctx)
	})
}

// fail says what failed, and adds the sentinel that describes a database error.
func (s *Store) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	sentinel := error(nil)
	switch {
	case errors.Is(err,
		ErrNotFound), errors.Is(err, ErrConflict), errors.Is(err, ErrInvalid), errors.Is(err, ErrFenced):
	case errors.Is(err, sql.ErrNoRows): // pgx.ErrNoRows is one too
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	default:
		switch s.eng.problem(err) {
		case problemUnique:
			sentinel = ErrConflict
		case problemNoOwner:
			sentinel = ErrNotFound
		case problemValue:
			sentinel = ErrInvalid
		case problemAway:
			sentinel = ErrUnavailable
		}
		if s.isClosed() && (sentinel == nil || sentinel == ErrUnavailable) { //nolint:errorlint // it is our own
			sentinel = ErrClosed
		}
	}
	if sentinel != nil {
		return fmt.Errorf("%s: %w: %w", what, sentinel, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// OnceID returns the id of the message that a client sends in a thread under an idempotency key: the same each time, so
// the thread itself knows which it has.
func OnceID(thread, key string) string {
	sum := sha256.Sum256([]byte(thread + "\n" + key))
	return "once-" + hex.EncodeToString(sum[:16])
}

// NewID returns a UUIDv7: ids sort by time. It panics only if the system has no random numbers.
func NewID() string { return database.NewID() }

func (s *Store) now() time.Time { return s.clock.now() }

// clockError is by how much clocks may differ, besides the time that it takes to compare them.
const clockError = 100 * time.Millisecond

// clock is the database's clock, as far as this process knows it. Deadlines and rates are compared with it by all
// processes, whose machines' clocks may differ by minutes.
type clock struct {
	machine func() time.Time // [time.Now], except in tests
	ahead   atomic.Int64     // of the machine's clock, as a [time.Duration]
}

func (c *clock) now() time.Time { return c.stored(c.machine()).UTC() }

// stored converts a time of the machine's clock to the database's, and local converts it back.
func (c *clock) stored(t time.Time) time.Time { return c.shift(t, 1) }
func (c *clock) local(t time.Time) time.Time  { return c.shift(t, -1) }

func (c *clock) shift(t time.Time, sign time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(sign * time.Duration(c.ahead.Load()))
}

// compare reads the database's clock, and changes ahead only if that cannot be right.
func (c *clock) compare(ctx context.Context, read func(context.Context) (time.Time, error)) (changed bool, err error) {
	began := c.machine()
	at, err := read(ctx)
	if err != nil {
		return false, err
	}
	least, most := at.Sub(c.machine()), at.Sub(began)
	if ahead := time.Duration(c.ahead.Load()); ahead >= least-clockError && ahead <= most+clockError {
		return false, nil
	}
	c.ahead.Store(int64((least + most) / 2))
	return true, nil
}
