package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"voicebridge/chat"
	"voicebridge/persistence"
)

// Defaults of [Config].
const (
	DefaultMaxParallel = 16
	DefaultEvery       = 2 * time.Second
	DefaultLease       = 30 * time.Second
	DefaultMaxAttempts = 6
)

// ErrClosed means that the queue no longer sends, because the server is stopping.
var ErrClosed = errors.New("the queue has stopped")

// Config configures all queues. Store is required.
type Config struct {
	Store *persistence.Store
	// Disabled keeps all messages until somebody sends them.
	Disabled bool
	// Delay is the least time between the end of a turn and the next message. The first one after a
	// start does not wait.
	Delay time.Duration
	// MaxSize limits how many messages may wait on a thread; 0 means no limit.
	MaxSize int
	// NoTitles leaves messages without titles.
	NoTitles bool
	// MaxParallel limits how many threads may be sent to at once; 0 means 16.
	MaxParallel int
	// Every is how often the table is scanned for what comes without notice: a due time, another
	// process; 0 means 2 s.
	Every time.Duration
	// Lease is how long sending a message may take; 0 means 30 s.
	Lease time.Duration
	// MaxAttempts is how often a message is tried before its queue pauses, whatever the failure; 0
	// means 6.
	MaxAttempts int
	// OnSent is called with how long a sent message has waited since it was due, OnPaused with why
	// a queue was paused. They must return at once; they may be nil.
	OnSent   func(waited time.Duration)
	OnPaused func(reason string)
	Logger   *slog.Logger
}

// Queue is the queues of all threads. It is safe for concurrent use.
type Queue struct {
	cfg    Config
	store  *persistence.Store
	log    *slog.Logger
	titles *titles
	began  time.Time // Run

	mu sync.Mutex
	// ready are the threads to look at, in order; waiting is the set of them.
	ready   []job
	waiting map[persistence.Key]bool
	// working are the threads that are being handled.
	working map[persistence.Key]*work
	// quiet is until when to leave a thread alone, because its call is answering.
	quiet map[persistence.Key]time.Time
	// lookAt is the latest time for the next scan of the table.
	lookAt time.Time
	closed bool
	wake   chan struct{}
}

// work is what is going on in a thread.
type work struct {
	again   bool // handle it once more
	turning bool // a message was sent, and its turn is running
}

// New makes the queues. Nothing is sent before Run.
func New(cfg Config) (*Queue, error) {
	if cfg.Store == nil {
		return nil, errors.New("queue: Config.Store is missing")
	}
	if min(int64(cfg.Delay), int64(cfg.MaxSize), int64(cfg.MaxParallel), int64(cfg.Every), int64(cfg.Lease), int64(cfg.MaxAttempts)) < 0 {
		return nil, errors.New("queue: a number in Config is negative")
	}
	cfg.MaxParallel = cmp.Or(cfg.MaxParallel, DefaultMaxParallel)
	cfg.Every, cfg.Lease = cmp.Or(cfg.Every, DefaultEvery), cmp.Or(cfg.Lease, DefaultLease)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, DefaultMaxAttempts)
	if cfg.OnSent == nil {
		cfg.OnSent = func(time.Duration) {}
	}
	if cfg.OnPaused == nil {
		cfg.OnPaused = func(string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	q := &Queue{
		cfg: cfg, store: cfg.Store, log: cfg.Logger, wake: make(chan struct{}, 1),
		waiting: map[persistence.Key]bool{}, working: map[persistence.Key]*work{}, quiet: map[persistence.Key]time.Time{},
	}
	q.titles = newTitles(q)
	return q, nil
}

// Settings are the parts of the configuration that clients may know.
type Settings struct {
	Enabled      bool `json:"enabled"`
	MaxSize      int  `json:"max_size"`
	DelaySeconds int  `json:"delay_seconds"`
}

// Settings returns the settings.
func (q *Queue) Settings() Settings {
	return Settings{Enabled: !q.cfg.Disabled, MaxSize: q.cfg.MaxSize, DelaySeconds: int(q.cfg.Delay / time.Second)}
}

// Add puts a message at the end of the thread's queue. If the thread is free it is sent at once. A
// known IdempotencyKey adds nothing and returns its message. The errors are
// persistence.ErrQueueFull, and those of Store.Enqueue.
func (q *Queue) Add(ctx context.Context, key persistence.Key, m persistence.QueuedMessage) (persistence.QueuedMessage, error) {
	saved, added, err := q.store.Enqueue(ctx, key, m, q.cfg.MaxSize)
	if err != nil || !added {
		return saved, err
	}
	q.updated(ctx, key, actionAdded, saved.ID)
	q.titles.ask(key, saved)
	q.Kick(key)
	return saved, nil
}

// List returns the waiting messages in the order of sending, and why the queue is paused; nil if it
// is not.
func (q *Queue) List(ctx context.Context, key persistence.Key) ([]persistence.QueuedMessage, *persistence.QueuePause, error) {
	return q.store.Queue(ctx, key)
}

// Length returns how many messages are waiting.
func (q *Queue) Length(ctx context.Context, key persistence.Key) (int, error) {
	return q.store.QueueLength(ctx, key)
}

// Get reads a waiting message; persistence.ErrNotFound if it was sent.
func (q *Queue) Get(ctx context.Context, key persistence.Key, id string) (persistence.QueuedMessage, error) {
	m, err := q.store.QueuedMessage(ctx, key, id)
	if err == nil && !m.State.Waits() {
		return persistence.QueuedMessage{}, persistence.ErrNotFound
	}
	return m, err
}

// Remove removes a message. persistence.ErrConflict means that it is being sent.
func (q *Queue) Remove(ctx context.Context, key persistence.Key, id string) error {
	m, err := q.store.Unqueue(ctx, key, id)
	if err != nil {
		return err
	}
	if left := q.updated(ctx, key, actionRemoved, id); left == 0 || m.Attempts > 0 {
		q.resume(ctx, key) // the reason for the pause is gone
	}
	q.Kick(key) // it may have kept others waiting
	return nil
}

// Clear removes all messages, except one that is being sent, and returns how many.
func (q *Queue) Clear(ctx context.Context, key persistence.Key) (int, error) {
	n, err := q.store.ClearQueue(ctx, key)
	if err == nil && n > 0 {
		q.updated(ctx, key, actionCleared, "")
		q.resume(ctx, key)
	}
	return n, err
}

// Edit changes a message's text, and resumes the queue if it was paused because of it.
// persistence.ErrConflict means that it is being sent.
func (q *Queue) Edit(ctx context.Context, key persistence.Key, id, text string) (persistence.QueuedMessage, error) {
	m, err := q.store.EditQueued(ctx, key, id, text)
	if err != nil {
		return m, err
	}
	q.reordered(ctx, key)
	q.titles.ask(key, m)
	if m.Attempts > 0 {
		q.resume(ctx, key)
	}
	q.Kick(key)
	return m, nil
}

// Move swaps a message with its neighbour, if there is one.
func (q *Queue) Move(ctx context.Context, key persistence.Key, id string, up bool) error {
	moved, err := q.store.MoveQueued(ctx, key, id, up)
	if moved {
		q.reordered(ctx, key)
	}
	return err
}

// Resume resumes a paused queue.
func (q *Queue) Resume(ctx context.Context, key persistence.Key) error {
	paused, err := q.store.ResumeQueue(ctx, key)
	if paused {
		q.publish(ctx, key, "queue_resumed", idEvent{SessionID: key.Thread})
	}
	q.Kick(key)
	return err
}

// resume resumes a queue that is paused for one of the reasons, or for any if none are given.
func (q *Queue) resume(ctx context.Context, key persistence.Key, reasons ...string) {
	ctx, cancel := detached(ctx)
	defer cancel()
	pause, err := q.store.QueuePause(ctx, key)
	if err == nil && pause != nil && (len(reasons) == 0 || slices.Contains(reasons, pause.Reason)) {
		err = q.Resume(ctx, key)
	}
	if err != nil {
		q.log.Warn("queue not resumed", "thread_id", key.Thread, "error", err)
	}
}

// TurnFinished is called for every finished text turn: see chat.TurnObserver. A failure that would
// repeat pauses the queue; a success ends such a pause. The queue's own turns report by themselves,
// because this report may come after somebody has resumed the queue.
func (q *Queue) TurnFinished(ctx context.Context, report chat.TurnReport) {
	if report.Closed {
		return
	}
	key, e := report.Key, report.Result.Err
	defer q.Kick(key)
	waits, err := q.store.QueueLength(ctx, key)
	switch {
	case err != nil || waits == 0:
	case e == nil && report.Result.Status == persistence.StatusCompleted:
		q.resume(ctx, key)
	case e != nil && !e.Transient():
		if err = q.store.PauseQueue(ctx, key, pauseFor(e)); err == nil {
			q.paused(ctx, key, pauseFor(e))
		}
	}
	if err != nil {
		q.log.Warn("queue not told of a turn", "thread_id", key.Thread, "error", err)
	}
}

// Spoke is called when the thread's call has answered. It returns at once.
func (q *Queue) Spoke(key persistence.Key) {
	q.leaveAlone(key, time.Now().Add(q.cfg.Delay))
	q.Kick(key)
}

// CallEnded is called when the thread's call has ended. It returns at once.
func (q *Queue) CallEnded(key persistence.Key) {
	q.leaveAlone(key, time.Time{})
	q.Kick(key)
}

// The actions of queue_updated.
const (
	actionAdded   = "added"
	actionRemoved = "removed"
	actionCleared = "cleared"
)

// The data of the events.
type (
	updatedEvent struct {
		SessionID   string `json:"session_id"`
		QueueLength int    `json:"queue_length"`
		Action      string `json:"action"`
		MessageID   string `json:"message_id"`
	}
	idEvent struct {
		SessionID string `json:"session_id"`
		MessageID string `json:"message_id,omitempty"`
		Title     string `json:"title,omitempty"`
	}
	pausedEvent struct {
		SessionID string `json:"session_id"`
		Reason    string `json:"reason"`
		Message   string `json:"message"`
	}
	reorderedEvent struct {
		SessionID string         `json:"session_id"`
		Messages  []shownMessage `json:"messages"`
	}
	shownMessage struct {
		ID      string `json:"id"`
		Title   string `json:"title"`
		Message string `json:"message"`
	}
)

// tellTimeout limits finding out what to send to watchers.
const tellTimeout = 5 * time.Second

// detached returns a context for what follows a saved change: it does not end with the request.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
}

// updated reports a change of a message, with the queue's length; -1 if it is unknown.
func (q *Queue) updated(ctx context.Context, key persistence.Key, action, id string) (length int) {
	ctx, cancel := detached(ctx)
	defer cancel()
	n, err := q.store.QueueLength(ctx, key)
	if err != nil {
		q.log.Warn("queue not counted", "thread_id", key.Thread, "error", err)
		return -1
	}
	q.publish(ctx, key, "queue_updated", updatedEvent{key.Thread, n, action, id})
	return n
}

func (q *Queue) paused(ctx context.Context, key persistence.Key, p persistence.QueuePause) {
	q.cfg.OnPaused(p.Reason)
	q.log.Warn("queue paused", "thread_id", key.Thread, "reason", p.Reason)
	q.publish(ctx, key, "queue_paused", pausedEvent{key.Thread, p.Reason, p.Message})
}

// Larger events do not reach other processes.
const (
	maxEvent      = 7000
	maxShownRunes = 50
)

// reordered reports the order of the queue, as much of it as an event can hold.
func (q *Queue) reordered(ctx context.Context, key persistence.Key) {
	ctx, cancel := detached(ctx)
	defer cancel()
	list, _, err := q.store.Queue(ctx, key)
	if err != nil {
		q.log.Warn("queue not listed", "thread_id", key.Thread, "error", err)
		return
	}
	e, size := reorderedEvent{SessionID: key.Thread, Messages: []shownMessage{}}, 0
	for _, m := range list {
		shown := shownMessage{m.ID, m.Title, cutRunes(m.Text, maxShownRunes)}
		if size += 6*(len(shown.Title)+len(shown.Message)) + 100; size > maxEvent {
			break
		}
		e.Messages = append(e.Messages, shown)
	}
	q.publish(ctx, key, "queue_reordered", e)
}

func (q *Queue) publish(ctx context.Context, key persistence.Key, kind persistence.EventType, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		q.log.Error("event not encoded", "type", kind, "error", err)
		return
	}
	q.store.Publish(ctx, key, persistence.Event{Type: kind, Data: encoded})
}

// cutRunes shortens a text at a character boundary, and marks the cut.
func cutRunes(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}
