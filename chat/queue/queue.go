package queue

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

// Queue is the queues of all threads. It is safe for concurrent use.
type Queue struct {
	inbox

	titles *titles
}

// New makes the queues. Nothing is sent before Run.
func New(cfg Config) *Queue {
	cfg.MaxParallel = cmp.Or(cfg.MaxParallel, defaultMaxParallel)
	cfg.Every, cfg.SendWithin = cmp.Or(cfg.Every, defaultEvery), cmp.Or(cfg.SendWithin, defaultSendWithin)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, defaultMaxAttempts)
	if cfg.OnSent == nil {
		cfg.OnSent = func(time.Duration) {}
	}
	if cfg.OnPaused == nil {
		cfg.OnPaused = func(string) {}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	q := &Queue{inbox: inbox{
		announcer: announcer{cfg.Store, cfg.Logger, cfg.OnPaused}, schedule: newSchedule(!cfg.Enabled), cfg: cfg,
	}}
	q.titles = newTitles(&q.announcer, cfg.AutoGenerateTitles)
	return q
}

// Settings are the parts of the configuration that clients may know.
type Settings struct {
	Enabled      bool `json:"enabled"`
	MaxSize      int  `json:"max_size"`
	DelaySeconds int  `json:"delay_seconds"`
}

// Settings returns the settings.
func (q *Queue) Settings() Settings {
	return Settings{Enabled: q.cfg.Enabled, MaxSize: q.cfg.MaxSize, DelaySeconds: int(q.cfg.Delay / time.Second)}
}

// Add puts a message at the end of the thread's queue. If the thread is free, it is sent at once. If its IdempotencyKey
// is known, nothing is added and the earlier message is returned. The errors are those of queued.Store.Add, such as
// queued.ErrFull.
func (q *Queue) Add(ctx context.Context, key thread.Key, m queued.Message) (queued.Message, error) {
	saved, added, err := q.store.Queued.Add(ctx, key, m, q.cfg.MaxSize)
	if err != nil || !added {
		return saved, err
	}
	q.updated(ctx, key, actionAdded, saved.ID)
	q.titles.request(key, saved)
	q.Kick(key)
	return saved, nil
}

// List returns the waiting messages in the order of sending, and why the queue is paused, nil if it is not.
func (q *Queue) List(ctx context.Context, key thread.Key) ([]queued.Message, *queued.Pause, error) {
	return q.store.Queued.List(ctx, key)
}

// Length returns how many messages are waiting.
func (q *Queue) Length(ctx context.Context, key thread.Key) (int, error) {
	return q.store.Queued.Length(ctx, key)
}

// Get reads a waiting message; persistence.ErrNotFound if it was sent.
func (q *Queue) Get(ctx context.Context, key thread.Key, id string) (queued.Message, error) {
	m, err := q.store.Queued.Message(ctx, key, id)
	if err == nil && !m.State.Waits() {
		return queued.Message{}, persistence.ErrNotFound
	}
	return m, err
}

// Send sends a waiting message at once, in this process, ahead of others and even if the queue is paused. The errors
// are persistence.ErrNotFound, persistence.ErrBusy, persistence.ErrInvalid for a text that the call cannot accept, and
// ErrClosed.
func (q *Queue) Send(ctx context.Context, key thread.Key, id string) error {
	if _, err := q.Get(ctx, key, id); err != nil {
		return err
	}
	sent := make(chan error, 1)
	if !q.put(job{key: key, id: id, sent: sent}, true) {
		return ErrClosed
	}
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Remove removes a message, and resumes the queue if it was paused because of it. persistence.ErrConflict means that it
// is being sent.
func (q *Queue) Remove(ctx context.Context, key thread.Key, id string) error {
	m, err := q.store.Queued.Remove(ctx, key, id)
	if err != nil {
		return err
	}
	if left := q.updated(ctx, key, actionRemoved, id); left == 0 || m.Attempts > 0 {
		q.resume(ctx, key) // the reason for the pause is gone
	}
	q.Kick(key) // it may have kept others waiting
	return nil
}

// Clear removes all messages, except one that is being sent, resumes the queue, and returns how many it has removed.
func (q *Queue) Clear(ctx context.Context, key thread.Key) (int, error) {
	n, err := q.store.Queued.Clear(ctx, key)
	if err == nil && n > 0 {
		q.updated(ctx, key, actionCleared, "")
		q.resume(ctx, key)
	}
	return n, err
}

// Edit changes a message's text, and resumes the queue if it was paused because of it.
// persistence.ErrConflict means that it is being sent.
func (q *Queue) Edit(ctx context.Context, key thread.Key, id, text string) (queued.Message, error) {
	m, err := q.store.Queued.Edit(ctx, key, id, text)
	if err != nil {
		return m, err
	}
	q.reordered(ctx, key)
	q.titles.request(key, m)
	if m.Attempts > 0 {
		q.resume(ctx, key)
	}
	q.Kick(key)
	return m, nil
}

// Move swaps a message with its neighbour, if there is one.
func (q *Queue) Move(ctx context.Context, key thread.Key, id string, up bool) error {
	moved, err := q.store.Queued.Move(ctx, key, id, up)
	if moved {
		q.reordered(ctx, key)
	}
	return err
}

// TurnFinished is called for every finished text turn: see chat.TurnObserver. A failure that would
// repeat pauses the queue; a success ends such a pause. The queue's own turns report by themselves,
// because this report may come after somebody has resumed the queue. And a turn that the thread's call has asked for
// does not matter to the messages, which are said in the call.
func (q *Queue) TurnFinished(ctx context.Context, report chat.TurnReport) {
	if report.Closed {
		return
	}
	key, e := report.Key, report.Result.Err
	defer q.Kick(key)
	if report.Result.Message.AskedBy() != "" {
		return
	}
	for _, id := range report.Settled {
		q.updated(ctx, key, actionRemoved, id)
	}
	waits, err := q.store.Queued.Length(ctx, key)
	switch {
	case err != nil:
	case waits > 0 && e != nil && !e.Transient():
		if err = q.store.Queued.Pause(ctx, key, pauseFor(e)); err == nil {
			q.paused(ctx, key, pauseFor(e))
		}
	case waits > 0 && report.Result.Status == thread.StatusCompleted, len(report.Settled) > 0:
		q.resume(ctx, key)
	}
	if err != nil {
		q.log.Warn("queue not updated after a turn", "thread_id", key.Thread, "error", err)
	}
}

// Spoke is called when the thread's call has answered. It returns at once.
func (q *Queue) Spoke(key thread.Key) {
	q.leaveAlone(key, time.Now().Add(q.cfg.Delay))
	q.Kick(key)
}

// CallEnded is called when the thread's call has ended. It returns at once.
func (q *Queue) CallEnded(key thread.Key) {
	q.leaveAlone(key, time.Time{})
	q.Kick(key)
}
