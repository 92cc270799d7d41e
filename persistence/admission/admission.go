// Package admission keeps what decides who may come in: page sessions and client secrets, the secret that signs them,
// rates that all processes share, and the tools of MCP servers as they were approved.
package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// Store keeps it in the database. It is safe for concurrent use.
type Store struct{ db database.DB }

// New returns the Store of a database.
func New(db database.DB) *Store { return &Store{db} }

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

// ToolPins returns the pinned definitions of an MCP server's tools, by tool name.
func (s *Store) ToolPins(ctx context.Context, server string) (map[string]string, error) {
	rows, err := s.db.Read().ListToolPins(ctx, server)
	if err != nil {
		return nil, s.db.Fail("read tool pins", err)
	}
	pins := make(map[string]string, len(rows))
	for _, r := range rows {
		pins[r.Tool] = r.Definition
	}
	return pins, nil
}

// PinTools pins definitions of an MCP server's tools, by tool name, replacing earlier ones. An
// empty definition unpins its tool.
func (s *Store) PinTools(ctx context.Context, server string, definitions map[string]string) error {
	at := dbtype.At(s.db.Now())
	return s.db.Fail("pin tools", s.db.Write(ctx, func(q database.Queries) error {
		for _, tool := range slices.Sorted(maps.Keys(definitions)) {
			var err error
			if definition := definitions[tool]; definition == "" {
				err = q.DeleteToolPin(ctx, server, tool)
			} else {
				err = q.SaveToolPin(ctx,
					pgdb.SaveToolPinParams{Server: server, Tool: tool, Definition: definition, PinnedAt: at})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}
