package persistence

import (
	"context"
	"time"

	"voicebridge/persistence/cluster"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
)

// roomDB is the store as the rooms below this package use it.
type roomDB struct{ s *Store }

var _ database.DB = roomDB{}

func (r roomDB) Read() queries                     { return r.s.eng.read() }
func (r roomDB) Instance() string                  { return r.s.Instance() }
func (r roomDB) Shared() bool                      { return r.s.shared }
func (r roomDB) Fail(what string, err error) error { return r.s.fail(what, err) }
func (r roomDB) Now() time.Time                    { return r.s.now() }
func (r roomDB) Stored(t time.Time) time.Time      { return r.s.clock.stored(t) }
func (r roomDB) Local(t time.Time) time.Time       { return r.s.clock.local(t) }
func (r roomDB) Write(ctx context.Context, fn func(queries) error) error {
	return r.s.write(ctx, fn)
}

// clusterLink is the store as package cluster uses it.
type clusterLink struct{ roomDB }

var _ cluster.Link = clusterLink{}

func (l clusterLink) WriteFenced(ctx context.Context, fn func(queries) error) error {
	return l.s.eng.write(ctx, fn)
}

func (l clusterLink) Beat(ctx context.Context, at dbtype.Time, id string) (n int64, err error) {
	err = l.s.measure(ctx, func() error {
		n, err = l.s.eng.beat(ctx, at, id)
		return err
	})
	return n, err
}

func (l clusterLink) CompareClocks(ctx context.Context) error {
	changed, err := l.s.clock.compare(ctx, l.s.eng.ping)
	if changed {
		l.s.log.Warn("this machine's clock differs from the database's, which counts for what processes share",
			"behind", time.Duration(l.s.clock.ahead.Load()).Round(time.Millisecond))
	}
	return err
}
