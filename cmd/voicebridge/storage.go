package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/spool"
)

// openSpool opens the file in which changes of calls wait for the database, after saving what dead
// processes left in theirs.
func (a *app) openSpool(ctx context.Context, address string) (err error) {
	dir := spoolDir(address)
	if err := spool.Recover(ctx, dir, a.store, a.log); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	a.spool, err = spool.New(spool.Config{
		Store: a.store, Dir: dir, Logger: a.log,
		Saved: func(key persistence.Key, messages []persistence.Message) {
			if a.calls != nil {
				a.calls.SavedLater(key, messages)
			}
		},
		Delayed: func(pending int) {
			if a.calls != nil {
				a.calls.StorageDelayed(pending)
			}
		},
	})
	if err != nil {
		a.log.Warn("what is said while the database is away is kept in memory only", "folder", dir, "error", err)
		a.spool = nil
	}
	return nil
}

// spoolDir returns the file's folder: beside the SQLite database, else data/spool.
func spoolDir(address string) string {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return filepath.Join(filepath.Dir(path), "spool")
	}
	return filepath.Join("data", "spool")
}
