package persistence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	neturl "net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

const (
	// maxPool limits Options.MaxConns.
	maxPool = 10_000
	// listenTestEvery is how often the connection for notifications is tested.
	listenTestEvery = 10 * time.Second
	// A process that begins while another one migrates tries again after migrationPause, goose's shortest,
	// and gives up after migrationTries.
	migrationPause = time.Second
	migrationTries = 300
	// readOnly is the error read_only_sql_transaction: a replica, or a full disk.
	readOnly = "25006"
	// maxIdle is how long the server waits for the next statement of a transaction before it ends it:
	// a process that is frozen or cut off must not keep its locks, which would keep others from taking
	// over what it has. It is less than defaultDeadAfter.
	maxIdle = 10 * time.Second
	// maxSilence is how long the server's machine may acknowledge nothing before a connection counts as
	// broken, and how long a new one may take. If the machine has disappeared, as in a failover, queries
	// would otherwise hang for a quarter of an hour.
	maxSilence = 20 * time.Second
	// maxPing is how long a connection that was idle may take to show that it works, and maxQuery how long a query or a
	// commit may take. A proxy that has lost the server acknowledges everything and answers nothing, which maxSilence
	// does not notice. maxQuery is more than maxIdle, for which locks of a frozen process are waited for, and less than
	// the time in which a turn tries to save its end.
	maxPing  = 5 * time.Second
	maxQuery = 15 * time.Second
)

type postgresEngine struct {
	pool      *pgxpool.Pool // for writing
	reads     *pgxpool.Pool // separate, so that writers never wait for readers' connections
	beats     *pgxpool.Pool // for heartbeats, which wait for nobody: one connection, and others only while that hangs
	pooled    bool          // there is a pooler in front of the server
	log       *slog.Logger
	testEvery time.Duration // listenTestEvery, or less in tests
	maxIdle   atomic.Int64  // maxIdle in milliseconds, or less in tests

	life    context.Context // for the goroutines; close ends it
	stop    context.CancelFunc
	running sync.WaitGroup
}

// openPostgres connects.
func openPostgres(ctx context.Context, url string, maxConns int, log *slog.Logger) (*postgresEngine, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil || isCut(url) {
		// The driver's error repeats the address.
		return nil, errors.New("open database: DATABASE_URL cannot be read: write " +
			"postgres://user:password@host:5432/name, with special characters in the password as %XX")
	}
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "voicebridge")
	// Prisma's: the schema of the tables, and a pooler, which connect finds by itself.
	if schema := params["schema"]; schema != "" && params["search_path"] == "" {
		params["search_path"] = pgx.Identifier{schema}.Sanitize()
	}
	delete(params, "schema")
	delete(params, "pgbouncer")
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, maxSilence)
	cfg.ConnConfig.DialFunc = dialer().DialContext
	cfg.ConnConfig.Tracer = queryLimit(maxQuery)
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, maxPing)
	if maxConns > 0 {
		cfg.MaxConns = max(int32(min(maxConns, maxPool))/2, 1) //nolint:gosec // bounded
	}
	pool, pooled, err := connect(ctx, cfg)
	if err != nil {
		return nil, postgresOpenError(cfg.ConnConfig, err)
	}
	reads, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		pool.Close()
		return nil, postgresOpenError(cfg.ConnConfig, err)
	}
	// A heartbeat is one message and one answer, however slow the database is.
	cfg = cfg.Copy()
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	beats, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		pool.Close()
		reads.Close()
		return nil, postgresOpenError(cfg.ConnConfig, err)
	}
	e := &postgresEngine{pool: pool, reads: reads, beats: beats, pooled: pooled, log: log, testEvery: listenTestEvery}
	e.maxIdle.Store(maxIdle.Milliseconds())
	e.life, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// isCut reports whether a password ends early in an address, because it has one of / ? # as it is: then the rest of it
// stands where the name of the database, a parameter or a fragment belongs.
func isCut(address string) bool {
	u, err := neturl.Parse(address)
	if err != nil {
		return true
	}
	for name := range u.Query() {
		if strings.Contains(name, "@") {
			return true
		}
	}
	return u.Fragment != "" || strings.Contains(u.EscapedPath(), "@")
}

// dialer makes connections.
func dialer() *net.Dialer { return &net.Dialer{Control: limitSilence(maxSilence)} }

// queryLimit limits the time of each query of a connection.
type queryLimit time.Duration

type cancelQuery struct{} // the key of a query's context.CancelFunc

func (l queryLimit) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(l))
	return context.WithValue(ctx, cancelQuery{}, cancel)
}

func (queryLimit) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	ctx.Value(cancelQuery{}).(context.CancelFunc)() //nolint:forcetypeassert // TraceQueryStart has set it
}

// connect makes the connection pool. pooled means that another pooler, such as PgBouncer, is in
// front of the server: then no statements are prepared, because the next transaction may get
// another connection.
func connect(ctx context.Context, cfg *pgxpool.Config) (pool *pgxpool.Pool, pooled bool, err error) {
	if pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, false, err
	}
	err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		answers, err := c.Conn().PgConn().Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
		if err != nil {
			return err
		}
		// A pooler numbers its own clients.
		pid := string(answers[0].Rows[0][0])
		pooled = pid != strconv.FormatUint(uint64(c.Conn().PgConn().PID()), 10)
		encoding := c.Conn().PgConn().ParameterStatus("server_encoding")
		if encoding != "" && encoding != "UTF8" { // some poolers do not say
			return encodingError(encoding)
		}
		return nil
	})
	if err == nil && !pooled {
		return pool, false, nil
	}
	pool.Close()
	if err != nil {
		return nil, false, err
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err = pgxpool.NewWithConfig(ctx, cfg)
	return pool, true, err
}

// encodingError is the encoding of a database that does not hold every text.
type encodingError string

func (e encodingError) Error() string { return "its encoding is " + string(e) }

// postgresOpenError says what to do about a failed connection. It leaves out the password, whatever
// the driver's error contains.
func postgresOpenError(cfg *pgx.ConnConfig, err error) error {
	hint := "check DATABASE_URL"
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pe.Code {
		case "28P01", "28000":
			hint = fmt.Sprintf("it rejects user %q: check the user and the password in DATABASE_URL", cfg.User)
		case "3D000":
			hint = fmt.Sprintf("it has no database %q: create it with createdb", cfg.Database)
		}
	} else if _, ok := errors.AsType[encodingError](err); ok {
		hint = fmt.Sprintf("%q cannot hold every text: create one with createdb --template=template0 --encoding=UTF8",
			cfg.Database)
	} else if _, ok := errors.AsType[*net.OpError](err); ok {
		hint = "is PostgreSQL running there, and can this machine reach it?"
	}
	text := err.Error()
	if cfg.Password != "" {
		text = strings.ReplaceAll(text, cfg.Password, "****")
	}
	return fmt.Errorf("open database: PostgreSQL at %s:%d: %s (%s)", cfg.Host, cfg.Port, hint, text)
}

func (e *postgresEngine) migrate(ctx context.Context, begin onMigration) error {
	option, err := e.migrationLock()
	if err != nil {
		return err
	}
	conn := e.unlimited()
	err = migrate(ctx, begin, goose.DialectPostgres, "postgres", conn, option)
	return errors.Join(err, conn.Close())
}

func (e *postgresEngine) outdated(ctx context.Context) (bool, error) {
	conn := e.unlimited()
	old, err := outdated(ctx, goose.DialectPostgres, "postgres", conn)
	return old, errors.Join(err, conn.Close())
}

// unlimited returns connections for queries that may take long, as those of migrations do.
func (e *postgresEngine) unlimited() *sql.DB {
	cfg := e.pool.Config().ConnConfig
	cfg.Tracer = nil
	return stdlib.OpenDB(*cfg)
}

// migrationLock keeps two processes from migrating at once, by a session lock or, behind a pooler,
// a table.
func (e *postgresEngine) migrationLock() (goose.ProviderOption, error) {
	if e.pooled {
		locker, err := lock.NewPostgresTableLocker(lock.WithTableLockTimeout(migrationPause, migrationTries))
		return goose.WithLocker(locker), err
	}
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockTimeout(uint64(migrationPause/time.Second), migrationTries),
	)
	return goose.WithSessionLocker(locker), err
}

func (e *postgresEngine) read() queries { return pgdb.New(e.reads) }

// write drops all connections when one turns out to be read-only, as after a failover or a full disk:
// it stays so even when the database, or the server that has taken its place, takes writes again.
func (e *postgresEngine) write(ctx context.Context, fn func(queries) error) error {
	err := e.transaction(ctx, func(tx pgx.Tx) error { return fn(pgdb.New(tx)) })
	if isReadOnly(err) {
		e.reset()
	}
	return err
}

// beat drops all other connections when it gets no answer in time: they may have lost the server, too, and requests
// must not find that out one by one.
func (e *postgresEngine) beat(ctx context.Context, at dbtype.Time, id string) (int64, error) {
	n, err := pgdb.New(e.beats).Beat(ctx, at, id)
	if isReadOnly(err) {
		e.beats.Reset()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.reset()
	}
	return n, err
}

func (e *postgresEngine) reset() {
	e.pool.Reset()
	e.reads.Reset()
}

func isReadOnly(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == readOnly
}

// transaction runs fn in one transaction. What waited for a lock must see what its holder has written,
// whatever the database's default is.
func (e *postgresEngine) transaction(ctx context.Context, fn func(pgx.Tx) error) error {
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = %d",
		e.maxIdle.Load())
	tx, err := e.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
	if err := fn(tx); err != nil {
		return err
	}
	// If a client went away now, the server could still commit, later than what its caller does about it.
	limit := maxQuery
	if by, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(by))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return tx.Commit(ctx)
}

func (e *postgresEngine) lock() error { return nil }

// scrub does nothing: the server overwrites deleted rows when it vacuums.
func (e *postgresEngine) scrub(context.Context) error { return nil }

// unindexed and index do nothing: the server fills its index by itself, in groups, too.
func (e *postgresEngine) unindexed(context.Context) (int64, error) { return 0, nil }
func (e *postgresEngine) index(context.Context, stopFunc) error    { return nil }

// compact does nothing: vacuum also cleans the indexes.
func (e *postgresEngine) compact(context.Context, bool, stopFunc) error { return nil }

func (e *postgresEngine) problem(err error) problem {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if connectionLost(err) {
			return problemAway
		}
		return problemOther
	}
	switch pe.Code {
	case readOnly, "25P03", "25P04", "55P03": // the time to be idle, of a transaction or to wait for a lock is over
		return problemAway
	case "23505": // unique_violation
		return problemUnique
	case "23502", "23503": // not_null_violation, foreign_key_violation
		return problemNoOwner
	case "54000", "54001": // program_limit_exceeded, statement_too_complex
		return problemValue
	}
	switch pe.Code[:min(2, len(pe.Code))] {
	case "22", "23": // values that a type or a rule rejects
		return problemValue
	case "08", "40", "53", "57", "58": // connection, deadlock, resources, shutdown, system
		return problemAway
	}
	return problemOther
}

func (e *postgresEngine) ping(ctx context.Context) (at time.Time, err error) {
	err = e.pool.QueryRow(ctx, "SELECT clock_timestamp(), (SELECT id FROM threads LIMIT 1)").Scan(&at, nil)
	return at, err
}

func (e *postgresEngine) close() error {
	e.stop()
	e.running.Wait()
	e.beats.Close()
	e.reads.Close()
	e.pool.Close()
	return nil
}
