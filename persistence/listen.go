package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

const (
	// maxReconnect is the longest pause between attempts to reconnect.
	maxReconnect = 15 * time.Second
	// pooledTimeout is how long a note may take behind a pooler, which probably passes none on.
	pooledTimeout = time.Second
	// channel is what all instances listen to.
	channel = "voicebridge"
)

// errNoNotes means that notifications do not arrive, as behind a pooler that gives every
// transaction another connection.
var errNoNotes = errors.New("notifications do not come back")

// listen opens the connection, outside the pool, on which an instance listens.
func (e *postgresEngine) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return nil, postgresOpenError(e.pool.Config().ConnConfig, err)
	}
	if err := e.tryListen(ctx, conn); err != nil {
		return nil, errors.Join(err, closeConn(conn))
	}
	return conn, nil
}

// tryListen begins to listen, and tests whether a notification sent on another connection arrives.
func (e *postgresEngine) tryListen(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	payload := "test " + NewID()
	if err := e.wake(ctx, []string{payload}); err != nil {
		return err
	}
	wait := sendTimeout
	if e.pooled {
		wait = pooledTimeout
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(waitCtx)
		switch {
		case err == nil && n.Payload == payload:
			return nil
		case err == nil: // what happens meanwhile is read later
		case ctx.Err() == nil && waitCtx.Err() != nil:
			return errNoNotes
		default:
			return err
		}
	}
}

func closeConn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return conn.Close(ctx)
}

// follow begins to listen; without listen, or if notifications do not arrive, it returns errNoNotes.
func (e *postgresEngine) follow(ctx context.Context, listen bool, woken func(wake)) error {
	if !listen {
		return errNoNotes
	}
	conn, err := e.listen(ctx)
	if err == nil {
		e.running.Go(func() { e.keepFollowing(e.life, conn, woken) })
	}
	return err
}

// keepFollowing passes on what other instances tell until ctx ends. If the connection breaks it
// opens a new one, and says that something may have been missed.
func (e *postgresEngine) keepFollowing(ctx context.Context, conn *pgx.Conn, woken func(wake)) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = maxReconnect
	for {
		if conn != nil {
			pause.Reset()
			err := e.receive(ctx, conn, woken)
			_ = closeConn(conn) // it is useless now
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
		if conn, err = e.listen(ctx); err != nil {
			conn = nil
			e.log.Warn("connection for notifications not restored", "error", err)
			continue
		}
		e.log.Info("connection for notifications restored")
		woken(wake{})
	}
}

// receive passes on what is told until the connection fails, and tests it now and then.
func (e *postgresEngine) receive(ctx context.Context, conn *pgx.Conn, woken func(wake)) error {
	for {
		waitCtx, cancel := context.WithTimeout(ctx, e.testEvery)
		n, err := conn.WaitForNotification(waitCtx)
		quiet := waitCtx.Err() != nil
		cancel()
		var w wake
		switch {
		case err == nil:
			if err := json.Unmarshal([]byte(n.Payload), &w); err != nil || w == (wake{}) {
				e.log.Debug("notification not understood", "error", err)
				continue
			}
			woken(w)
		case ctx.Err() != nil || !quiet || conn.IsClosed():
			return err
		default:
			if err := e.test(ctx, conn); err != nil {
				return err
			}
		}
	}
}

func (e *postgresEngine) test(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// wake notifies the instances that listen.
func (e *postgresEngine) wake(ctx context.Context, payloads []string) error {
	if len(payloads) == 0 {
		return nil
	}
	_, err := e.pool.Exec(ctx, "SELECT pg_notify($1, p) FROM unnest($2::text[]) AS n (p)", channel, payloads)
	return err
}
