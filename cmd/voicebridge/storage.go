package main

import (
	"context"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/persistence/records"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
)

// recoverTries is how often to try at the start: other processes write meanwhile, and a deadlock with one is over at once.
const recoverTries = 5

// recoverDead saves what dead processes left in their spools in dir, and closes what they left open.
func (a *app) recoverDead(ctx context.Context, dir string) error {
	_, err := backoff.Retry(ctx, func() ([]records.Call, error) {
		if err := spool.Recover(ctx, dir, a.store, a.log); err != nil {
			return nil, err
		}
		return a.store.Recover(ctx)
	}, backoff.WithMaxTries(recoverTries))
	return err
}

// openSpool makes the queue in which what is said waits for the database.
func (a *app) openSpool(dir string) (err error) {
	cfg := spool.Config{
		Store: a.store, Dir: dir, Logger: a.log,
		Observe: func(t spool.Attempt) { a.observer.Saved(t.Key, t.Due, t.Ended, t.InFile, t.Err == nil, t.Changes) },
		Saved: func(key thread.Key, messages []thread.Message) {
			if a.calls != nil {
				a.calls.Saved(key, messages)
			}
		},
		Delayed: func(pending int) {
			if a.calls != nil {
				a.calls.StorageDelayed(pending)
			}
		},
	}
	if a.spool, err = spool.New(cfg); err != nil {
		a.log.Warn("what is said while the database is away is kept in memory only", "folder", dir, "error", err)
		cfg.Dir = ""
		a.spool, err = spool.New(cfg)
	}
	return err
}
