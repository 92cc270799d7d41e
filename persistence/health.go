package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"voicebridge/persistence/internal/dbtype"
)

// health remembers whether the database accepted the latest writes.
type health struct {
	mu    sync.Mutex
	since time.Time // of the first write that failed after the last success
	err   error
}

func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.err = nil
	case h.err == nil:
		h.since, h.err = time.Now().UTC(), err
	default:
		h.err = err
	}
}

func (h *health) get() (since time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, h.err
}

// write runs fn in one transaction and records whether the database is available.
func (s *Store) write(ctx context.Context, fn func(queries) error) error {
	return s.measure(ctx, func() error {
		return s.eng.write(ctx, func(q queries) error {
			if s.shared && s.Cluster.Serving() {
				if err := s.Cluster.Hold(ctx, q); err != nil {
					return err
				}
			}
			return fn(q)
		})
	})
}

// measure records how long a write takes, and whether the database is available for it.
func (s *Store) measure(ctx context.Context, write func() error) error {
	began := time.Now()
	err := write()
	switch {
	case err == nil:
		s.health.note(nil)
		s.onWrite(time.Since(began), true)
	case s.eng.problem(err) == problemAway && !s.isClosed() && !errors.Is(ctx.Err(), context.Canceled):
		s.health.note(err)
		s.onWrite(time.Since(began), false)
	}
	return err
}

// Healthy returns nil if the database can be read and written now, ErrFenced, or ErrUnavailable and why. If
// the last write failed although the database answers, because it is locked, full or read-only,
// Healthy tries to write again.
func (s *Store) Healthy(ctx context.Context) error {
	select {
	case <-s.Cluster.Fenced():
		return ErrFenced
	default:
	}
	if err := s.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if _, err := s.health.get(); err == nil {
		return nil
	}
	err := s.write(ctx, func(q queries) error {
		_, err := q.Beat(ctx, dbtype.At(s.now()), s.Instance())
		return err
	})
	if err != nil {
		since, _ := s.health.get()
		return fmt.Errorf("%w: it has taken no changes since %s: %w", ErrUnavailable, since.Format(time.RFC3339), err)
	}
	return nil
}

// connectionLost reports whether err means that the connection to the database failed.
func connectionLost(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}
