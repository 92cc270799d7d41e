package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"voicebridge/persistence/internal/pgdb"
)

const (
	// maxReconnect is the longest pause between attempts to reconnect.
	maxReconnect = 15 * time.Second
	// pooledTimeout is how long a note may take behind a pooler, which probably passes none on.
	pooledTimeout = time.Second
	// recentFor is how long other instances may take to learn what this one listens to.
	recentFor = time.Second
)

// listener is the connection, outside the pool, on which an instance listens.
type listener struct {
	conn *pgx.Conn
	// shards are those that it listens to, recent those of them that other instances may not know
	// about until recentUntil.
	shards, recent shardSet
	recentUntil    time.Time
}

// errNoNotes means that notifications do not arrive, as behind a pooler that gives every
// transaction another connection.
var errNoNotes = errors.New("notifications do not come back")

// listen opens the listener.
func (e *postgresEngine) listen(ctx context.Context) (*listener, error) {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return nil, postgresOpenError(e.pool.Config().ConnConfig, err)
	}
	l := &listener{conn: conn}
	err = e.tryListen(ctx, l)
	if err == nil {
		err = e.subscribe(ctx, l)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// tryListen begins to listen, and tests whether a notification sent on another connection arrives.
func (e *postgresEngine) tryListen(ctx context.Context, l *listener) error {
	if _, err := l.conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	payload := "test " + NewID()
	if _, err := e.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
		return err
	}
	wait := sendTimeout
	if e.pooled {
		wait = pooledTimeout
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		n, err := l.conn.WaitForNotification(waitCtx)
		switch {
		case err == nil && n.Payload == payload:
			return nil
		case err == nil:
			e.handleNote(n.Payload)
		case ctx.Err() == nil && waitCtx.Err() != nil:
			return errNoNotes
		default:
			return err
		}
	}
}

func (l *listener) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.conn.Close(ctx)
}

// keepFollowing passes on the notes of other instances until ctx ends. If the connection breaks it
// opens a new one, and says that something may have been missed.
func (e *postgresEngine) keepFollowing(ctx context.Context, l *listener) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = maxReconnect
	for {
		if l != nil {
			pause.Reset()
			err := e.receive(ctx, l)
			_ = l.close() // it is useless now
			if ctx.Err() != nil {
				return
			}
			e.log.Warn("connection for notifications lost", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
		var err error
		if l, err = e.listen(ctx); err != nil {
			l = nil
			e.log.Warn("connection for notifications not restored", "error", err)
			continue
		}
		e.log.Info("connection for notifications restored")
		e.hub.hintAll()
		signal(e.hub.commands)
	}
}

// receive passes on notes until the connection fails, and tests it now and then.
func (e *postgresEngine) receive(ctx context.Context, l *listener) error {
	tested := time.Now()
	for {
		if err := e.subscribe(ctx, l); err != nil {
			return err
		}
		wait := e.testEvery - time.Since(tested)
		if wait <= 0 {
			if err := e.test(ctx, l); err != nil {
				return err
			}
			tested = time.Now()
			continue
		}
		if l.recent != 0 {
			wait = min(wait, time.Until(l.recentUntil))
		}
		n, quiet, err := e.waitForNote(ctx, l, wait)
		switch {
		case err == nil:
			e.handleNote(n.Payload)
		case ctx.Err() != nil || !quiet || l.conn.IsClosed():
			return err
		}
	}
}

// waitForNote waits for a note. quiet means that none came in time, or that the watched shards have
// changed.
func (e *postgresEngine) waitForNote(ctx context.Context, l *listener, wait time.Duration) (n *pgconn.Notification, quiet bool, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	var waking sync.WaitGroup
	waking.Go(func() {
		select {
		case <-e.hub.shards:
			cancel()
		case <-waitCtx.Done():
		}
	})
	n, err = l.conn.WaitForNotification(waitCtx)
	quiet = waitCtx.Err() != nil
	cancel()
	waking.Wait()
	return n, quiet, err
}

// subscribe listens to the shards that are watched and notifies other instances of that. What they
// save before they know is read from the table.
func (e *postgresEngine) subscribe(ctx context.Context, l *listener) error {
	if l.recent != 0 && !time.Now().Before(l.recentUntil) {
		e.hub.hintShards(l.recent)
		l.recent = 0
	}
	watched := e.hub.watchedShards()
	missing := watched.minus(l.shards)
	if missing == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for _, shard := range l.shards.minus(watched).list() {
		if _, err := l.conn.Exec(ctx, "UNLISTEN "+shardChannel(shard)); err != nil {
			return err
		}
	}
	for _, shard := range missing.list() {
		if _, err := l.conn.Exec(ctx, "LISTEN "+shardChannel(shard)); err != nil {
			return err
		}
	}
	if err := e.tellShards(ctx, watched); err != nil {
		return err
	}
	l.shards, l.recent, l.recentUntil = watched, l.recent|missing, time.Now().Add(recentFor)
	e.hub.hintShards(missing)
	return nil
}

// tellShards tells other instances what this one watches, and whether it reads notes from the table.
func (e *postgresEngine) tellShards(ctx context.Context, watched shardSet) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := pgdb.New(e.pool).ListenTo(ctx, pgdb.ListenToParams{
		ID: e.lease.Load().id(), Shards: int64(watched), ReadsNotes: e.relaying.Load(), //nolint:gosec // bits
	})
	if err == nil {
		e.outbox.put(note{Type: noteShards})
	}
	return err
}

func (e *postgresEngine) test(ctx context.Context, l *listener) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return l.conn.Ping(ctx)
}

func (e *postgresEngine) handleNote(payload string) {
	var n note
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		e.log.Debug("notification not understood", "error", err)
		return
	}
	switch {
	case n.Instance == e.origin:
	case n.Data != nil: // an event, whose type may be that of a note
		e.hub.draft(n.Key, Event{Type: EventType(n.Type), Data: n.Data})
	case n.Type == noteShards:
		signal(e.hub.joined)
	case n.Type == noteCommand:
		if n.To == e.lease.Load().id() {
			signal(e.hub.commands)
		}
	case n.Type == noteAnswer:
		e.hub.answered(n.To)
	case n.Type == noteGone:
		e.hub.gone(n.Key)
	default:
		e.hub.hint(n.Key)
	}
}
