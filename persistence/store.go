// Package persistence keeps threads, their messages and the records of what
// happened in them, in SQLite or in PostgreSQL, and tells whoever watches a
// thread what changes. Everything is asked for on behalf of an owner; a
// stranger's thread is ErrNotFound.
//
// A Store may be used by many goroutines. What comes back was read from the
// database: it is what was saved.
package persistence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// leaveTimeout is how long Close tries to say that this process ends.
const leaveTimeout = 2 * time.Second

// Options are the settings of a Store. The zero value is useful.
type Options struct {
	// Logger hears of what no caller is told; nil is silence.
	Logger *slog.Logger
	// Instance is the id of this process. It must be new for every start: what
	// was left open under an id that nobody serves counts as left by a
	// dead process. Empty means a new UUID.
	Instance string
	// NoMigrate leaves the schema as it is until Serve.
	NoMigrate bool
	// DeadAfter is how long another process must have said nothing before this one
	// takes it for dead; 0 is 15 s. Every process of a database should have the same.
	DeadAfter time.Duration
	// NoListen does without PostgreSQL's notifications, for poolers that do not pass
	// them on. Serve finds that out by itself, in some seconds.
	NoListen bool
	// MaxConns is how many connections to PostgreSQL there may be, beside the one that
	// listens: a half is for reading and a half for writing. 0 is what the address
	// says with pool_max_conns for each half, or else 4 or the number of processors.
	MaxConns int
	// OnWrite is told how long each transaction took that writes, and whether it was
	// saved; of those that are refused it is not told. It must return at once; nil is nobody.
	OnWrite func(took time.Duration, saved bool)
}

// Store is one database.
type Store struct {
	eng   engine
	hub   *hub
	log   *slog.Logger
	lease *lease
	// shared says that other processes may serve the database too.
	shared bool
	// pooled says that a pooler stands before the database.
	pooled bool
	// noListen is Options.NoListen.
	noListen bool
	onWrite  func(took time.Duration, saved bool)
	// poll is how often a watcher looks for changes that no hint came for, as a
	// time.Duration; zero is never, where no other process writes.
	poll atomic.Int64

	health  health
	sums    sums
	serving atomic.Bool
	closing sync.Once
	closed  chan struct{}
	beating sync.WaitGroup
}

// Open opens the database that url names, sqlite:PATH or postgres://…, and
// brings its schema up to date unless told not to. The errors say what to do and
// never show a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Instance == "" {
		opts.Instance = NewID()
	}
	if opts.OnWrite == nil {
		opts.OnWrite = func(time.Duration, bool) {}
	}
	if !validID(opts.Instance) {
		return nil, fmt.Errorf("open database: %w instance: it is not 1 to %d bytes of text", ErrInvalid, MaxIDBytes)
	}
	s := &Store{hub: newHub(), log: opts.Logger, lease: newLease(opts), noListen: opts.NoListen, onWrite: opts.OnWrite, closed: make(chan struct{})}
	if err := s.openEngine(ctx, url, opts); err != nil {
		return nil, err
	}
	if !opts.NoMigrate {
		if err := s.eng.migrate(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("migrate database: %w", err), s.Close())
		}
	}
	return s, nil
}

func (s *Store) openEngine(ctx context.Context, url string, opts Options) error {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		e, err := openSQLite(ctx, path)
		if err != nil {
			return err
		}
		s.eng = e
		return nil
	}
	if strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://") {
		e, err := openPostgres(ctx, url, opts.MaxConns, s.hub, s.log)
		if err != nil {
			return err
		}
		s.eng, s.shared, s.pooled = e, true, e.pooled
		s.poll.Store(int64(pollEvery))
		return nil
	}
	return errors.New("open database: DATABASE_URL must be sqlite:PATH or postgres://user:password@host/name")
}

// Migrate brings the schema of the database up to date and closes it again.
func Migrate(ctx context.Context, url string, logger *slog.Logger) error {
	s, err := Open(ctx, url, Options{Logger: logger})
	if err != nil {
		return err
	}
	return s.Close()
}

// Close ends all watches with ErrClosed, says that this process no longer serves,
// gives up the lock and closes the database. Further calls do nothing.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		s.beating.Wait()
		s.leave()
		err = s.eng.close()
	})
	return err
}

// leave lets others know at once that this instance has ended. When it cannot
// they find out by themselves.
func (s *Store) leave() {
	if !s.serving.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	at := dbtype.At(now())
	if err := s.eng.write(ctx, func(q queries) error {
		return q.LeaveInstance(ctx, pgdb.LeaveInstanceParams{ID: s.lease.id(), EndedAt: &at})
	}); err != nil {
		s.log.Warn("could not tell others that this process ends", "error", err)
	}
}

// Ping says whether the database answers and has its tables.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.eng.ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// Instance is the id of this process in the records it writes. Rejoin changes it.
func (s *Store) Instance() string { return s.lease.id() }

// Pooled says that a pooler such as PgBouncer stands before the database: then no statement
// is prepared, and notifications of other processes do not come.
func (s *Store) Pooled() bool { return s.pooled }

// Dropped counts the events that were not passed on because a watcher or the
// way to other instances was too slow. Messages are never among them.
func (s *Store) Dropped() int64 { return s.hub.dropped.Load() }

// Serve marks this process as one that serves the database, until Close, and
// brings the schema up to date. With SQLite it is the only one, and an error says
// so when there is another. With PostgreSQL it says every few seconds that it
// lives, and follows what other instances do.
func (s *Store) Serve(ctx context.Context) error {
	if s.serving.Load() {
		return nil
	}
	if err := s.eng.lock(); err != nil {
		return err
	}
	if err := s.eng.migrate(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	if err := s.join(ctx, s.lease.id()); err != nil {
		return fmt.Errorf("serve database: %w", err)
	}
	s.serving.Store(true)
	if !s.shared {
		return nil
	}
	if err := s.look(ctx); err != nil {
		return fmt.Errorf("serve database: %w", err)
	}
	if err := s.follow(ctx); err != nil {
		return fmt.Errorf("serve database: %w", err)
	}
	s.beating.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			defer cancel()
			select {
			case <-s.closed:
			case <-ctx.Done():
			}
		}()
		s.keepBeating(ctx)
	})
	return nil
}

// follow begins to hear what other instances tell. Where no notifications come it
// asks the database more often instead.
func (s *Store) follow(ctx context.Context) error {
	err := s.eng.follow(ctx, s.lease, !s.noListen)
	if !errors.Is(err, errNoNotes) {
		return err
	}
	s.poll.Store(int64(pollFast))
	s.log.Warn("PostgreSQL's notifications do not arrive here, as behind a pooler: other processes are asked twice a second instead")
	return nil
}

// fail wraps an error of the database as callers know it.
func (s *Store) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	sentinel := error(nil)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict), errors.Is(err, ErrInvalid), errors.Is(err, ErrFenced):
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
		if s.isClosed() && (sentinel == nil || sentinel == ErrUnavailable) { //nolint:errorlint // it is ours
			sentinel = ErrClosed
		}
	}
	if sentinel != nil {
		return fmt.Errorf("%s: %w: %w", what, sentinel, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isMissing says that a query gave no row.
func (s *Store) isMissing(err error) bool { return errors.Is(err, sql.ErrNoRows) }

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// NewID gives a UUIDv7: ids sort by time. It panics only when the system has no
// random numbers.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

func now() time.Time { return time.Now().UTC() }
