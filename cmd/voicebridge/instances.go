package main

import (
	"context"
	"time"

	"voicebridge/bridge"
)

const (
	// endFenced bounds how long a fenced process waits for its calls to end.
	endFenced = 15 * time.Second
	// rejoinEvery is the pause between attempts to rejoin.
	rejoinEvery = time.Second
	// expireEvery is how often expired conversations are deleted.
	expireEvery = time.Hour
)

// beginAgain ends the calls and turns of a fenced process: others have closed them in the database,
// so nothing more of them would be saved. Then the process goes on serving as a new instance.
func (a *app) beginAgain(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.store.Cluster.Fenced():
		}
		a.log.Error(
			"ending all calls and turns, which other processes have closed", "calls", a.calls.Count(), "turns", a.texts.Count())
		a.texts.InterruptAll()
		ending, cancel := context.WithTimeout(ctx, endFenced)
		a.calls.EndAll(ending, bridge.EndStorageFailed)
		cancel()
		a.rejoin(ctx)
	}
}

// rejoin retries until the database accepts the process again.
func (a *app) rejoin(ctx context.Context) {
	tick := time.Tick(rejoinEvery)
	for {
		err := a.store.Cluster.Rejoin(ctx)
		if err == nil {
			a.log.Info("serving again", "instance", a.store.Instance())
			return
		}
		if ctx.Err() == nil {
			a.log.Warn("could not rejoin the other processes", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// expire deletes expired conversations at the start and then every hour. Several instances may do
// so at once.
func (a *app) expire(ctx context.Context) error {
	days := a.cfg.Conversations.RetentionDays
	tick := time.Tick(expireEvery)
	for {
		n, err := a.store.Expire(ctx, time.Now(), days)
		if err != nil && ctx.Err() == nil {
			a.log.Warn("old conversations not deleted", "error", err)
		}
		if n > 0 {
			a.log.Info("old conversations deleted", "threads", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}
