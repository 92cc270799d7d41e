package spool

import (
	"context"
	"fmt"
	"log/slog"

	"voicebridge/persistence"
)

// Direct saves like a [Writer], for a process that cannot have a file: what the database
// does not take is safe nowhere.
type Direct struct {
	Store  store
	Logger *slog.Logger
}

// Commit saves changes of a thread in the database. After an error none is saved, and
// they may be tried again.
func (d Direct) Commit(ctx context.Context, key persistence.Key, changes []persistence.Change) (Result, error) {
	groups := []persistence.ThreadChanges{{Key: key, Changes: changes}}
	applied, err := d.Store.ApplyAll(ctx, groups)
	if err != nil {
		return Result{}, fmt.Errorf("commit changes: %w", err)
	}
	logLost(d.Logger, groups, applied)
	return Result{Applied: applied[0]}, nil
}

// Pending is 0: nothing waits.
func (Direct) Pending() int { return 0 }

// Full is false: there is nothing that could be.
func (Direct) Full() bool { return false }
