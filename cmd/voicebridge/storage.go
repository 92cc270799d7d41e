package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
)

// recoverTries is how often to try at the start: other processes write meanwhile, and a deadlock with one is over at once.
const recoverTries = 5

// recoverDead saves what dead processes left in their spools in dir, and closes what they left open.
func (a *app) recoverDead(ctx context.Context, dir string) error {
	_, err := backoff.Retry(ctx, func() ([]persistence.CallRecord, error) {
		if err := spool.Recover(ctx, dir, a.store, a.log); err != nil {
			return nil, err
		}
		return a.store.Recover(ctx)
	}, backoff.WithMaxTries(recoverTries))
	return err
}

// openSpool opens the file in which changes of calls wait for the database.
func (a *app) openSpool(dir string) {
	var err error
	a.spool, err = spool.New(spool.Config{
		Store: a.store, Dir: dir, Logger: a.log,
		Saved: func(key thread.Key, messages []thread.Message) {
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
}

// spoolDir returns the file's folder: beside the SQLite database, else data/spool.
func spoolDir(address string) string {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return filepath.Join(filepath.Dir(path), "spool")
	}
	return filepath.Join("data", "spool")
}
