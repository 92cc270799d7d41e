package queue

import (
	"context"
	"log/slog"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// announcer reports changes of queues to their threads' watchers.
type announcer struct {
	store    *persistence.Store
	log      *slog.Logger
	onPaused func(reason string)
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

// announceTimeout limits finding out what to send to watchers.
const announceTimeout = 5 * time.Second

// detached returns a context for what follows a saved change. It does not end with the request.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), announceTimeout)
}

// updated reports a change of a message, with the queue's length; -1 if it is unknown.
func (a *announcer) updated(ctx context.Context, key thread.Key, action, id string) (length int) {
	ctx, cancel := detached(ctx)
	defer cancel()
	n, err := a.store.Queued.Length(ctx, key)
	if err != nil {
		a.log.Warn("queue not counted", "thread_id", key.Thread, "error", err)
		return -1
	}
	a.publish(ctx, key, "queue_updated", updatedEvent{key.Thread, n, action, id})
	return n
}

func (a *announcer) paused(ctx context.Context, key thread.Key, p queued.Pause) {
	a.onPaused(p.Reason)
	a.log.Warn("queue paused", "thread_id", key.Thread, "reason", p.Reason)
	a.publish(ctx, key, "queue_paused", pausedEvent{key.Thread, p.Reason, p.Message})
}

const (
	// maxEvent limits queue_reordered, in bytes.
	maxEvent = 7000
	// maxShownRunes is how much of each message it shows.
	maxShownRunes = 50
)

// reordered reports the order of the queue, as much of it as an event can hold.
func (a *announcer) reordered(ctx context.Context, key thread.Key) {
	ctx, cancel := detached(ctx)
	defer cancel()
	list, _, err := a.store.Queued.List(ctx, key)
	if err != nil {
		a.log.Warn("queue not listed", "thread_id", key.Thread, "error", err)
		return
	}
	e, size := reorderedEvent{SessionID: key.Thread, Messages: []shownMessage{}}, 0
	for _, m := range list {
		shown := shownMessage{m.ID, m.Title, toolkit.Cut(m.Text, maxShownRunes)}
		if size += 6*(len(shown.Title)+len(shown.Message)) + 100; size > maxEvent {
			break
		}
		e.Messages = append(e.Messages, shown)
	}
	a.publish(ctx, key, "queue_reordered", e)
}

func (a *announcer) publish(ctx context.Context, key thread.Key, kind persistence.EventType, data any) {
	a.store.Publish(ctx, key, persistence.Event{Type: kind, Data: toolkit.Encode(data)})
}
