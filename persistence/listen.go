package persistence

import (
	"context"
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

// line is the connection beside the pool on which an instance listens.
type line struct{ conn *pgx.Conn }

// serve opens the line and follows it until close.
func (e *postgresEngine) serve(ctx context.Context, _ *lease) error {
	l, err := e.listen(ctx)
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
	if _, err = conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
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
// connection.
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
	return l.conn.Ping(ctx)
}

func (e *postgresEngine) hear(payload string) {
	var n note
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		e.log.Debug("a note that is not ours", "error", err)
		return
	}
	switch {
	case n.Instance == e.origin:
	case n.Type == noteGone:
		e.hub.gone(n.Key)
	case n.Data == nil:
		e.hub.hint(n.Key)
	default:
		e.hub.draft(n.Key, Event{Type: EventType(n.Type), Data: n.Data})
	}
}
