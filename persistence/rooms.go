package persistence

import (
	"context"
	"time"

	"voicebridge/persistence/internal/database"
)

// roomDB is the store as the rooms below this package use it.
type roomDB struct{ s *Store }

var _ database.DB = roomDB{}

func (r roomDB) Read() queries                     { return r.s.eng.read() }
func (r roomDB) Instance() string                  { return r.s.lease.id() }
func (r roomDB) Shared() bool                      { return r.s.shared }
func (r roomDB) Fail(what string, err error) error { return r.s.fail(what, err) }
func (r roomDB) Now() time.Time                    { return r.s.now() }
func (r roomDB) Stored(t time.Time) time.Time      { return r.s.clock.stored(t) }
func (r roomDB) Local(t time.Time) time.Time       { return r.s.clock.local(t) }
func (r roomDB) Write(ctx context.Context, fn func(queries) error) error {
	return r.s.write(ctx, fn)
}
