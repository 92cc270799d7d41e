package queue

import (
	"context"
	"sync"
	"time"

	"voicebridge/llm"
)

// maxScan is how many threads one scan of the table returns.
const maxScan = 500

// Run sends messages until ctx ends, and returns when those that it has begun to send are sent and their turns have
// ended. It must be called once.
func (q *Queue) Run(ctx context.Context, door Door) error {
	q.began = time.Now()
	q.resumeAtStart(ctx)
	var working sync.WaitGroup
	working.Go(func() { q.titles.run(ctx, door) })
	slots := make(chan struct{}, q.cfg.MaxParallel)
	for ctx.Err() == nil {
		wait := q.scan(ctx)
		for {
			j, ok := q.take(len(slots) < cap(slots))
			if !ok {
				break
			}
			slots <- struct{}{}
			leave := sync.OnceFunc(func() { <-slots; q.signal() })
			working.Go(func() {
				defer func() { leave(); q.done(j.key) }()
				(&sending{q: &q.inbox, door: door, job: &j, leave: leave}).run(ctx)
			})
		}
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-time.After(wait):
		}
	}
	q.close()
	working.Wait()
	return nil
}

// resumeAtStart resumes queues whose reason to pause, such as a wrong key, may be gone after a restart. If it is not,
// they pause again after one attempt.
func (q *Queue) resumeAtStart(ctx context.Context) {
	for _, reason := range []string{
		string(llm.KindAuth), string(llm.KindQuota), string(llm.KindUnavailable), reasonInCall,
	} {
		keys, err := q.store.Queued.Paused(ctx, reason)
		if err != nil && ctx.Err() == nil {
			q.log.Warn("paused queues not resumed", "error", err)
		}
		for _, key := range keys {
			q.resume(ctx, key)
		}
	}
}

// scan scans the table if it is time to, and returns how long until the next scan is due.
func (q *Queue) scan(ctx context.Context) time.Duration {
	q.forgetQuiet()
	if !q.cfg.Enabled {
		return time.Hour
	}
	wait := q.due(q.cfg.Every)
	if wait > 0 {
		return wait
	}
	keys, err := q.store.Queued.Due(ctx, maxScan)
	if err != nil && ctx.Err() == nil {
		q.log.Warn("queues not scanned", "error", err)
	}
	for _, key := range keys {
		q.Kick(key)
	}
	return q.cfg.Every
}
