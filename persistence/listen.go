package persistence

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

const (
	// lineTestEvery is how often the line to other instances is tested.
	lineTestEvery = 10 * time.Second
	// maxReconnect is the longest pause between two attempts to reconnect.
	maxReconnect = 15 * time.Second
)

// lockKey is the number of the advisory lock that says that the instance lives.
func lockKey(instance string) int64 {
	sum := sha256.Sum256([]byte("voicebridge instance " + instance))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// line is the connection beside the pool on which an instance listens and holds
// its lock.
type line struct {
	conn   *pgx.Conn
	locked bool
}

// serve opens the line and follows it until close.
func (e *postgresEngine) serve(ctx context.Context) error {
	l, err := e.listen(ctx)
	if err == nil && !l.locked {
		err = errors.Join(fmt.Errorf("another process serves the database as instance %q", e.instance), l.close())
	}
	if err != nil {
		return fmt.Errorf("serve database: %w", err)
	}
	e.running.Go(func() { e.follow(e.life, l) })
	return nil
}

func (e *postgresEngine) listen(ctx context.Context) (*line, error) {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return nil, postgresOpenError(e.pool.Config().ConnConfig, err)
	}
	l := &line{conn: conn}
	err = l.lock(ctx, e.instance)
	if err == nil {
		// The server must notice soon when this machine is gone: only then is the
		// lock free.
		_, err = conn.Exec(ctx, "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; LISTEN "+channel)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// lock tries to get the instance's lock.
func (l *line) lock(ctx context.Context, instance string) error {
	return l.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey(instance)).Scan(&l.locked)
}

func (l *line) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.conn.Close(ctx)
}

// follow passes on what other instances tell, until ctx ends. It opens a new
// line when one breaks; what was missed in between the table has.
func (e *postgresEngine) follow(ctx context.Context, l *line) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = maxReconnect
	for {
		if l != nil {
			pause.Reset()
			err := e.receive(ctx, l)
			_ = l.close() // it is of no use any more
			if ctx.Err() != nil {
				return
			}
			e.log.Warn("lost the line to other instances", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
		var err error
		if l, err = e.listen(ctx); err != nil {
			l = nil
			e.log.Warn("no line to other instances", "error", err)
			continue
		}
		e.log.Info("line to other instances is back")
		e.hub.hintAll()
	}
}

// receive passes on notes until the connection fails. Now and then it tests the
// connection, and tries for the lock while the server still counts it as held
// by a line that broke.
func (e *postgresEngine) receive(ctx context.Context, l *line) error {
	tested := time.Now()
	for {
		wait := e.testEvery - time.Since(tested)
		if wait <= 0 {
			if err := e.test(ctx, l); err != nil {
				return err
			}
			tested = time.Now()
			continue
		}
		waitCtx, cancel := context.WithTimeout(ctx, wait)
		n, err := l.conn.WaitForNotification(waitCtx)
		quiet := waitCtx.Err() != nil
		cancel()
		switch {
		case err == nil:
			e.hear(n.Payload)
		case ctx.Err() != nil || !quiet || l.conn.IsClosed():
			return err
		}
	}
}

func (e *postgresEngine) test(ctx context.Context, l *line) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if !l.locked {
		return l.lock(ctx, e.instance)
	}
	return l.conn.Ping(ctx)
}

func (e *postgresEngine) hear(payload string) {
	var n note
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		e.log.Debug("a note that is not ours", "error", err)
		return
	}
	switch {
	case n.Instance == e.instance:
	case n.Type == noteGone:
		e.hub.gone(n.Key)
	case n.Data == nil:
		e.hub.hint(n.Key)
	default:
		e.hub.draft(n.Key, Event{Type: EventType(n.Type), Data: n.Data})
	}
}
