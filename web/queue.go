package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// queues serves the routes about queued messages.
type queues struct{ *api }

// routes registers the same routes under both names of a thread.
func (h queues) routes(r router) {
	for _, thread := range []string{"/api/threads/:id", "/api/sessions/:id"} {
		r.explain = orThread
		route(r, "GET "+thread+"/queue", h.list)
		route(r, "POST "+thread+"/queue", h.add, r.text)
		route(r, "DELETE "+thread+"/queue", h.clear)
		route(r, "POST "+thread+"/queue/resume", h.resume)
		r.explain = orQueued
		route(r, "GET "+thread+"/queue/:msg_id", h.read)
		route(r, "PATCH "+thread+"/queue/:msg_id", h.edit)
		route(r, "DELETE "+thread+"/queue/:msg_id", h.remove)
		route(r, "POST "+thread+"/queue/:msg_id/move", h.move)
		route(r.passing(), "POST "+thread+"/queue/:msg_id/send", h.send)
	}
}

// queuedAnswer is a queued message in the form that clients get.
type queuedAnswer struct {
	ID       string    `json:"id" openapi:"pattern: '^q-[0-9]+-[0-9a-f]{8}$'"`
	Message  string    `json:"message"`
	QueuedAt time.Time `json:"queued_at"`
	// Title is two or three words; empty until there is one.
	Title       string       `json:"title"`
	State       queued.State `json:"state"`
	ImageIDs    []string     `json:"image_ids,omitempty"`
	ClientID    string       `json:"client_id,omitempty"`
	Key         string       `json:"idempotency_key,omitempty"`
	ScheduledAt *time.Time   `json:"scheduled_at,omitempty"`
	Attempts    int          `json:"attempts,omitempty"`
	// Error says why the last attempt failed.
	Error string `json:"error,omitempty"`
	// NotBefore is when it will be tried again.
	NotBefore *time.Time `json:"not_before,omitempty"`
}

func showQueued(m queued.Message) queuedAnswer {
	return queuedAnswer{
		ID: m.ID, Message: m.Text, QueuedAt: m.QueuedAt, Title: m.Title, State: m.State, ImageIDs: m.ImageIDs,
		ClientID: m.ClientID, Key: m.IdempotencyKey, ScheduledAt: m.ScheduledAt, Attempts: m.Attempts, Error: m.Error,
		NotBefore: m.NotBefore,
	}
}

type queueAnswer struct {
	Messages []queuedAnswer `json:"messages"`
	Count    int            `json:"count"`
	// Paused says why the queue is paused; null if it is not.
	Paused *pauseAnswer `json:"paused"`
}

type pauseAnswer struct {
	// Reason is one of auth, quota, too_long, bad_request, unavailable, and too_long_for_call, which ends with the
	// call.
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

func (h queues) list(ctx context.Context, _ caller, in oneThread) (queueAnswer, error) {
	list, pause, err := h.Queue.List(ctx, in.Key)
	answer := queueAnswer{Messages: []queuedAnswer{}, Count: len(list)}
	for _, m := range list {
		answer.Messages = append(answer.Messages, showQueued(m))
	}
	if pause != nil {
		answer.Paused = &pauseAnswer{pause.Reason, pause.Message, pause.At}
	}
	return answer, orThread(err)
}

type newQueued struct {
	Key  thread.Key
	Body struct {
		Message        string   `json:"message"`
		ImageIDs       []string `json:"image_ids"`
		ClientID       string   `json:"client_id"`
		IdempotencyKey string   `json:"idempotency_key"`
		ScheduledAt    string   `json:"scheduled_at"`
	} `body:"1024 KiB"`
}

// add queues a message. The same idempotency key gets the same answer and adds nothing.
func (h queues) add(ctx context.Context, who caller, in newQueued) (answer reply[queuedAnswer], err error) {
	if err := checkQueued(in.Body.Message); err != nil {
		return answer, err
	}
	at, err := h.readSchedule(in.Body.ScheduledAt)
	if err != nil {
		return answer, err
	}
	once, err := idempotencyKey(who.c, in.Body.IdempotencyKey)
	if err != nil {
		return answer, err
	}
	if err := h.checkImages(ctx, in.Key, in.Body.ImageIDs); err != nil {
		return answer, err
	}
	saved, err := h.Queue.Add(ctx, in.Key, queued.Message{
		Text: in.Body.Message, ImageIDs: in.Body.ImageIDs, ClientID: in.Body.ClientID, IdempotencyKey: once,
		ScheduledAt: at,
	})
	switch {
	case errors.Is(err, queued.ErrFull):
		err = problem.Conflict("queue_full", "",
			fmt.Sprintf("Queue is full. Maximum %d messages allowed.", h.Queue.Settings().MaxSize))
	case errors.Is(err, persistence.ErrConflict):
		err = errKeyUsed
	}
	return created("", showQueued(saved)), err
}

func checkQueued(text string) error {
	if strings.TrimSpace(text) == "" {
		return problem.BadRequest("empty_message", "message", "The message is empty.")
	}
	if len(text) > queued.MaxBytes {
		return problem.TooLarge("message",
			fmt.Sprintf("The message has %d bytes; the limit is %d.", len(text), queued.MaxBytes))
	}
	return nil
}

// readSchedule reads a time (RFC 3339) or a delay, such as 5m; nil for an empty text.
func (h queues) readSchedule(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // as soon as possible
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return new(h.now().Add(d)), nil
	}
	return nil, problem.BadRequest("invalid_scheduled_at", "scheduled_at",
		"scheduled_at must be a time like 2026-12-24T18:00:00Z, or how long from now, like 5m.")
}

func (h queues) clear(ctx context.Context, _ caller, in oneThread) (none, error) {
	_, err := h.Queue.Clear(ctx, in.Key)
	return none{}, err
}

func (h queues) resume(ctx context.Context, who caller, in oneThread) (queueAnswer, error) {
	if err := h.Queue.Resume(ctx, in.Key); err != nil {
		return queueAnswer{}, err
	}
	return h.list(ctx, who, in)
}

var errNotQueued = problem.NotFound("message_not_found", "There is no such message in the queue.")

// orQueued replaces errors about a queued message by readable ones.
func orQueued(err error) error {
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return errNotQueued
	case errors.Is(err, persistence.ErrConflict):
		return problem.Conflict("message_sending", "", "The message is being sent.")
	}
	return err
}

type oneQueued struct {
	Key thread.Key
	ID  string `path:"msg_id"`
}

func (h queues) read(ctx context.Context, _ caller, in oneQueued) (queuedAnswer, error) {
	m, err := h.Queue.Get(ctx, in.Key, in.ID)
	return showQueued(m), err
}

type editedQueued struct {
	Key  thread.Key
	ID   string `path:"msg_id"`
	Body struct {
		Message string `json:"message"`
	} `body:"1024 KiB"`
}

func (h queues) edit(ctx context.Context, _ caller, in editedQueued) (queuedAnswer, error) {
	if err := checkQueued(in.Body.Message); err != nil {
		return queuedAnswer{}, err
	}
	m, err := h.Queue.Edit(ctx, in.Key, in.ID, in.Body.Message)
	return showQueued(m), err
}

func (h queues) remove(ctx context.Context, _ caller, in oneQueued) (none, error) {
	return none{}, h.Queue.Remove(ctx, in.Key, in.ID)
}

type movedQueued struct {
	Key  thread.Key
	ID   string `path:"msg_id"`
	Body struct {
		Direction string `json:"direction"`
	} `body:"64 KiB"`
}

func (h queues) move(ctx context.Context, who caller, in movedQueued) (queueAnswer, error) {
	if d := in.Body.Direction; d != "up" && d != "down" {
		return queueAnswer{}, problem.BadRequest("invalid_direction", "direction", "direction must be up or down.")
	}
	if err := h.Queue.Move(ctx, in.Key, in.ID, in.Body.Direction == "up"); err != nil {
		return queueAnswer{}, err
	}
	return h.list(ctx, who, oneThread{in.Key})
}

// send sends a message at once, ahead of those before it.
func (h queues) send(ctx context.Context, who caller, in oneQueued) (queueAnswer, error) {
	err := h.Queue.Send(ctx, in.Key, in.ID)
	switch {
	case errors.Is(err, queue.ErrClosed):
		return queueAnswer{}, problem.ErrShuttingDown
	case err != nil:
		return queueAnswer{}, err
	}
	return h.list(ctx, who, oneThread{in.Key})
}
