package admission

import (
	"context"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/pgdb"
)

// TakeRate counts one use of something allowed perMinute times a minute, across all instances of
// the database. wait is how long until the next use is allowed; zero means that this use was
// counted. With SQLite it counts nothing, because the only instance counts by itself.
func (s *Store) TakeRate(ctx context.Context, name string, perMinute int) (wait time.Duration, err error) {
	if !s.db.Shared() {
		return 0, nil
	}
	if name == "" || perMinute < 1 {
		return 0, fmt.Errorf("take rate: %w", database.Invalid("rate %.50q of %d", name, perMinute))
	}
	at, step := s.db.Now().UnixMicro(), time.Minute.Microseconds()/int64(perMinute)
	latest := at + time.Minute.Microseconds()
	var full int64
	err = s.db.Write(ctx, func(q database.Queries) error {
		if err := q.BeginRate(ctx, name, at); err != nil {
			return err
		}
		taken, err := q.TakeRate(ctx, pgdb.TakeRateParams{Name: name, Now: at, Step: step, Latest: latest})
		if full = 0; err != nil || taken > 0 {
			return err
		}
		full, err = q.GetRate(ctx, name)
		return err
	})
	if err != nil || full == 0 {
		return 0, s.db.Fail("take rate", err)
	}
	return max(time.Duration(full+step-latest)*time.Microsecond, time.Millisecond), nil
}

// ForgetRates deletes the rates of which nothing is used any more.
func (s *Store) ForgetRates(ctx context.Context) error {
	if !s.db.Shared() {
		return nil
	}
	return s.db.Fail("forget rates", s.db.Write(ctx, func(q database.Queries) error {
		return q.ForgetRates(ctx, s.db.Now().UnixMicro())
	}))
}
