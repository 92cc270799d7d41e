package persistence

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// PollEvery sets how often a store polls for the changes of others and tests its connection for
// notifications. Call it before Serve and Watch.
func PollEvery(s *Store, every time.Duration) {
	s.poll.Store(int64(every))
	postgresOf(s).testEvery = every
}

// MaxIdle sets how long a transaction may be idle.
func MaxIdle(s *Store, d time.Duration) { postgresOf(s).maxIdle.Store(d.Milliseconds()) }

// QueryLimit limits the time of each query of a connection.
func QueryLimit(d time.Duration) pgx.QueryTracer { return queryLimit(d) }

// QueryLimits returns the limits of a store's connections for writing and reading.
func QueryLimits(s *Store) []pgx.QueryTracer {
	e := postgresOf(s)
	return []pgx.QueryTracer{e.pool.Config().ConnConfig.Tracer, e.reads.Config().ConnConfig.Tracer}
}

// Silence stops a store's heartbeats. Call it before Serve.
func Silence(s *Store) { s.eng = silent{s.eng} }

type silent struct{ engine }

func (silent) beat(context.Context, dbtype.Time, string) (int64, error) { return 1, nil }

// postgresOf returns the engine of a store, which may be silent.
func postgresOf(s *Store) *postgresEngine {
	if of, ok := s.eng.(silent); ok {
		return of.engine.(*postgresEngine)
	}
	return s.eng.(*postgresEngine)
}

// Beat records one heartbeat.
func Beat(ctx context.Context, s *Store) error {
	_, err := postgresOf(s).beat(ctx, dbtype.At(s.now()), s.Instance())
	return err
}

// Index adds all finished messages to the search index, as a serving process does by itself.
func Index(ctx context.Context, s *Store) error { return s.eng.index(ctx, neverStop) }

// BeforeDrafts calls do once, before the store next reads a message's drafts outside a transaction.
func BeforeDrafts(s *Store, do func()) { s.eng = &interrupted{engine: s.eng, do: do} }

type interrupted struct {
	engine
	once sync.Once
	do   func()
}

func (i *interrupted) read() queries { return interruptedQueries{i.engine.read(), i} }

// WhileRecovering calls do in the transactions of Recover, after they have closed messages.
func WhileRecovering(s *Store, do func()) { s.eng = &recovering{s.eng, do} }

type recovering struct {
	engine
	do func()
}

func (r *recovering) write(ctx context.Context, fn func(queries) error) error {
	return r.engine.write(ctx, func(q queries) error { return fn(recoveringQueries{q, r.do}) })
}

type recoveringQueries struct {
	queries
	do func()
}

func (q recoveringQueries) EndOpenTurns(ctx context.Context, instance string) error {
	q.do()
	return q.queries.EndOpenTurns(ctx, instance)
}

type interruptedQueries struct {
	queries
	by *interrupted
}

func (q interruptedQueries) ListDrafts(ctx context.Context, messageID string) ([]pgdb.Draft, error) {
	q.by.once.Do(q.by.do)
	return q.queries.ListDrafts(ctx, messageID)
}

// OutboxAfterFailure publishes events, fails to write the first group, publishes one more, and returns the data of all
// that are left, in order.
func OutboxAfterFailure(events int) (left []string) {
	o, h := newOutbox(), newHub()
	publish := func(n int) {
		o.publish(h, o.entry(thread.Key{Owner: "anna"}, Event{Data: fmt.Append(nil, n)}), true)
	}
	for n := range events {
		publish(n)
	}
	first, wakes := o.take()
	publish(events)
	o.restore(first, wakes)
	for {
		group, _ := o.take()
		if len(group) == 0 {
			return left
		}
		for _, u := range group {
			left = append(left, string(u.event.Data))
		}
	}
}
