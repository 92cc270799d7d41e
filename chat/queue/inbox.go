package queue

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// Defaults of [Config].
const (
	defaultMaxParallel = 16
	defaultEvery       = 2 * time.Second
	defaultSendWithin  = 20 * time.Second
	defaultMaxAttempts = 6
)

// Config configures all queues. Store is required.
type Config struct {
	Store *persistence.Store
	// Whether queued messages are sent automatically.
	Enabled bool `yaml:"enabled" default:"true"`
	// How long a message waits at least.
	//
	// It is the least time between the end of a turn and the next message. The first one after a start does not wait.
	Delay time.Duration `yaml:"delay_seconds" min:"0" max:"3600"`
	// How many messages may wait on a thread; 0: no limit.
	MaxSize int `yaml:"max_size" default:"10" min:"0" max:"100000"`
	// Whether queued messages get titles.
	AutoGenerateTitles bool `yaml:"auto_generate_titles" default:"true"`
	// MaxParallel limits how many threads may be sent to at once; 0 means 16.
	MaxParallel int
	// Every is how often the table is scanned for messages that come without notice, because they are due or from
	// another process; 0 means 2 s.
	Every time.Duration
	// SendWithin is how long sending a message may take before it goes back to its queue; 0 means 20 s.
	SendWithin time.Duration
	// MaxAttempts is how often a message is tried before its queue pauses, whatever the failure; 0
	// means 6.
	MaxAttempts int
	// OnSent is called with how long a sent message has waited since it was due, OnPaused with the reason why a queue
	// was paused. They must return at once, and may be nil.
	OnSent   func(waited time.Duration)
	OnPaused func(reason string)
	Logger   *slog.Logger // nil discards the log
}

// Door answers messages, by text or in live calls; *chat.Door implements it.
type Door interface {
	Say(ctx context.Context, req chat.TurnRequest, mode chat.Mode) (chat.Answer, error)
	// Ready returns the id of the thread's call in this process, empty for none, and whether a message may be said now.
	Ready(ctx context.Context, key thread.Key) (callID string, ready bool, err error)
	Title(ctx context.Context, key thread.Key, instructions, text string) (string, error)
}

// inbox is what the queues of all threads have in common.
type inbox struct {
	announcer
	schedule

	cfg   Config
	began time.Time // when Run did
}

// begins announces that the sending of a message begins, once: that is before the delay.
func (q *inbox) begins(ctx context.Context, key thread.Key, id string) {
	if q.first(key, id) {
		q.publish(ctx, key, "queue_message_sending", idEvent{SessionID: key.Thread, MessageID: id})
	}
}

// Resume resumes a paused queue.
func (q *inbox) Resume(ctx context.Context, key thread.Key) error {
	paused, err := q.store.Queued.Resume(ctx, key)
	if paused {
		q.publish(ctx, key, "queue_resumed", idEvent{SessionID: key.Thread})
	}
	q.Kick(key)
	return err
}

// resume resumes a queue that is paused for one of the reasons, or for any if none are given.
func (q *inbox) resume(ctx context.Context, key thread.Key, reasons ...string) {
	ctx, cancel := detached(ctx)
	defer cancel()
	pause, err := q.store.Queued.PauseOf(ctx, key)
	if err == nil && pause != nil && (len(reasons) == 0 || slices.Contains(reasons, pause.Reason)) {
		err = q.Resume(ctx, key)
	}
	if err != nil {
		q.log.Warn("queue not resumed", "thread_id", key.Thread, "error", err)
	}
}
