package spool

import (
	"context"
	"fmt"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// Direct replaces a [Writer] in a process that cannot have a file: it does not keep changes that the
// database cannot take at the moment.
type Direct struct{ Store store }

// Commit saves changes of a thread in the database. After an error none is saved, and they may be
// retried.
func (d Direct) Commit(ctx context.Context, key thread.Key, changes []persistence.Change) (Result, error) {
	applied, err := d.Store.ApplyAll(ctx, []persistence.ThreadChanges{{Key: key, Changes: changes}})
	if err != nil {
		return Result{}, fmt.Errorf("commit changes: %w", err)
	}
	return Result{Applied: applied[0]}, nil
}

// Pending returns 0: nothing waits.
func (Direct) Pending() int { return 0 }

// Full returns false: there is no file.
func (Direct) Full() bool { return false }
