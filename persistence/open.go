package persistence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"voicebridge/persistence/admission"
	"voicebridge/persistence/assistants"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/extractions"
	"voicebridge/persistence/grants"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/recordings"
	"voicebridge/persistence/records"
	"voicebridge/persistence/shares"
	"voicebridge/thread"
)

// Open opens the database that url names, sqlite:PATH or postgres://…, and brings its schema up to
// date unless Options.NoMigrate is set. Its errors say what to do and never contain a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Instance = cmp.Or(opts.Instance, NewID())
	if opts.OnWrite == nil {
		opts.OnWrite = func(time.Duration, bool) {}
	}
	if opts.OnLost == nil {
		opts.OnLost = func(int) {}
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if !thread.ValidID(opts.Instance) {
		return nil, fmt.Errorf("open database: %w",
			Invalid("instance: it is not 1 to %d bytes of text", thread.MaxIDBytes))
	}
	s := &Store{
		hub: newHub(), outbox: newOutbox(), log: opts.Logger, clock: clock{machine: opts.Clock},
		noListen: opts.NoListen, noMigrate: opts.NoMigrate, onWrite: opts.OnWrite, onLost: opts.OnLost,
		rescue: opts.Rescue, rescuing: make(chan struct{}, 1),
		closed: make(chan struct{}),
	}
	s.sweeper = sweeper{s, make(chan struct{}, 1)}
	s.Cluster = cluster.New(clusterLink{roomDB{s}},
		cluster.Config{Instance: opts.Instance, DeadAfter: opts.DeadAfter, Logger: opts.Logger})
	s.Admission, s.Queued = admission.New(roomDB{s}), queued.New(roomDB{s})
	s.Pictures, s.Recordings = pictures.New(roomDB{s}), recordings.New(roomDB{s})
	s.Assistants = assistants.New(roomDB{s}, opts.Assistants)
	s.Hooks, s.Shares = hooked.New(roomDB{s}), shares.New(roomDB{s})
	s.Grants = grants.New(roomDB{s})
	s.Records = records.New(roomDB{s}, s.Hooks.Fresh)
	s.Extractions = extractions.New(roomDB{s}, s.Hooks.Fresh)
	opened, shared, err := openEngine(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	if s.eng = opened; shared != nil {
		s.shared, s.pooled = true, shared.pooled
		s.poll.Store(int64(pollEvery))
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.outbox.stop = stop
	eng := s.eng // tests change it
	s.running.Go(func() { eventLog{s}.keepSending(sending, eng) })
	if !opts.NoMigrate {
		if err := s.eng.migrate(ctx, opts.OnMigration); err != nil {
			return nil, errors.Join(fmt.Errorf("migrate database: %w", err), s.Close())
		}
	}
	return s, nil
}

// openEngine opens the engine of a url. Other processes may share a PostgreSQL.
func openEngine(ctx context.Context, url string, opts Options) (engine, *postgresEngine, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		e, err := openSQLite(ctx, path)
		return e, nil, err
	}
	if strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://") {
		e, err := openPostgres(ctx, url, opts.MaxConns, opts.Logger)
		return e, e, err
	}
	return nil, nil, errors.New("open database: DATABASE_URL must be sqlite:PATH or postgres://user:password@host/name")
}

// Migrate opens the database that url names, brings its schema up to date and closes it again.
func Migrate(ctx context.Context, url string, opts Options) error {
	opts.NoMigrate = false
	s, err := Open(ctx, url, opts)
	if err != nil {
		return err
	}
	return s.Close()
}

// Lock keeps other processes from serving the SQLite file until Close, and changes nothing in it. If one
// serves it already, the error is ErrServed. With PostgreSQL it does nothing.
func (s *Store) Lock() error { return s.eng.lock() }

// Outdated reports whether an older version of the program made the tables, which exist: Ping says so. Migrate and
// Serve bring them up to date. If they could not, because the tables are too old or too new, the error says what to do.
func (s *Store) Outdated(ctx context.Context) (bool, error) {
	outdated, err := s.eng.outdated(ctx)
	return outdated, s.fail("read version of database", err)
}

// Serve marks this process as serving the database, until Close, and brings the schema up to date if Open has not.
// With SQLite it must be the only one; otherwise it fails. With PostgreSQL it sends heartbeats and
// follows the other instances.
func (s *Store) Serve(ctx context.Context) error {
	if s.Cluster.Serving() {
		return nil
	}
	if err := s.eng.lock(); err != nil {
		return err
	}
	if s.noMigrate { // else Open has done it
		if err := s.eng.migrate(ctx, nil); err != nil {
			return fmt.Errorf("migrate database: %w", err)
		}
	}
	if err := s.Cluster.Join(ctx); err != nil {
		return fmt.Errorf("serve database: %w", err)
	}
	s.background(s.sweeper.run)
	if !s.shared {
		s.background(s.sweeper.keepIndexing)
		return nil
	}
	if err := (eventLog{s}).follow(ctx); err != nil {
		return fmt.Errorf("serve database: %w", err)
	}
	s.background(s.Cluster.KeepBeating)
	s.background(s.Cluster.KeepLooking)
	return nil
}

// follow begins to read what other instances write. If no notifications arrive, the database is
// polled more often instead.
func (l eventLog) follow(ctx context.Context) error {
	log, err := l.s.eng.read().EventNumbers(ctx) // what is in the log now is old
	if err != nil {
		return err
	}
	if err := l.s.eng.follow(ctx, !l.s.noListen, l.woken); errors.Is(err, errNoNotes) {
		l.s.poll.Store(int64(pollFast))
		l.s.log.Warn("PostgreSQL's notifications do not arrive here, as behind a pooler: the database is polled " +
			"twice a second instead")
	} else if err != nil {
		return err
	}
	l.s.background(func(ctx context.Context) { l.keepReading(ctx, log.Newest) })
	return nil
}

// woken passes on what another instance has told; an empty wake means that something may have been missed.
func (l eventLog) woken(w wake) {
	switch {
	case w == wake{}:
		l.s.hub.hintAll()
		signal(l.s.hub.grown)
	case w.From == l.s.outbox.origin:
	case w.Log:
		signal(l.s.hub.grown)
	default:
		l.s.hub.hint(thread.Key{Owner: w.Owner, Thread: w.Thread})
	}
}
