package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// messageQueue holds messages until a thread is free; *queue.Queue implements it.
type messageQueue interface {
	queueReader
	queueWriter
}

type queueReader interface {
	Settings() queue.Settings
	List(ctx context.Context, key thread.Key) ([]queued.Message, *queued.Pause, error)
	Length(ctx context.Context, key thread.Key) (int, error)
	Get(ctx context.Context, key thread.Key, id string) (queued.Message, error)
}

type queueWriter interface {
	Add(ctx context.Context, key thread.Key, m queued.Message) (queued.Message, error)
	Edit(ctx context.Context, key thread.Key, id, text string) (queued.Message, error)
	Move(ctx context.Context, key thread.Key, id string, up bool) error
	Remove(ctx context.Context, key thread.Key, id string) error
	Clear(ctx context.Context, key thread.Key) (int, error)
	Send(ctx context.Context, key thread.Key, id string) error
	Resume(ctx context.Context, key thread.Key) error
}

// queues serves the routes about queued messages.
type queues struct {
	queue  messageQueue
	images *images
	now    func() time.Time
}

// routes registers the same routes under both names of a thread.
func (h *queues) routes(r router) {
	for _, thread := range []string{"/api/threads/:id", "/api/sessions/:id"} {
		r.GET(thread+"/queue", onThread(h.answer), r.user)
		r.POST(thread+"/queue", onThread(h.add), r.user, r.text)
		r.DELETE(thread+"/queue", onThread(h.clear), r.user)
		r.POST(thread+"/queue/resume", onThread(h.resume), r.user)
		r.GET(thread+"/queue/:msg_id", onQueued(h.read), r.user)
		r.PATCH(thread+"/queue/:msg_id", onQueued(h.edit), r.user)
		r.DELETE(thread+"/queue/:msg_id", onQueued(h.remove), r.user)
		r.POST(thread+"/queue/:msg_id/move", onQueued(h.move), r.user)
		r.POST(thread+"/queue/:msg_id/send", onQueued(h.send), r.user)
	}
}

// queuedAnswer is a queued message in the form that clients get.
type queuedAnswer struct {
	ID          string       `json:"id"`
	Message     string       `json:"message"`
	QueuedAt    time.Time    `json:"queued_at"`
	Title       string       `json:"title"`
	State       queued.State `json:"state"`
	ImageIDs    []string     `json:"image_ids,omitempty"`
	ClientID    string       `json:"client_id,omitempty"`
	Key         string       `json:"idempotency_key,omitempty"`
	ScheduledAt *time.Time   `json:"scheduled_at,omitempty"`
	Attempts    int          `json:"attempts,omitempty"`
	// Error says why the last attempt failed, NotBefore when the next one comes.
	Error     string     `json:"error,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
}

func showQueued(m queued.Message) queuedAnswer {
	return queuedAnswer{
		ID: m.ID, Message: m.Text, QueuedAt: m.QueuedAt, Title: m.Title, State: m.State, ImageIDs: m.ImageIDs, ClientID: m.ClientID,
		Key: m.IdempotencyKey, ScheduledAt: m.ScheduledAt, Attempts: m.Attempts, Error: m.Error, NotBefore: m.NotBefore,
	}
}

type queueAnswer struct {
	Messages []queuedAnswer `json:"messages"`
	Count    int            `json:"count"`
	// Paused says why the queue is paused; null if it is not.
	Paused *pauseAnswer `json:"paused"`
}

type pauseAnswer struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// answer returns the queue.
func (h *queues) answer(c echo.Context, key thread.Key) error {
	list, pause, err := h.queue.List(c.Request().Context(), key)
	if err != nil {
		return orThread(err)
	}
	answer := queueAnswer{Messages: []queuedAnswer{}, Count: len(list)}
	for _, m := range list {
		answer.Messages = append(answer.Messages, showQueued(m))
	}
	if pause != nil {
		answer.Paused = &pauseAnswer{pause.Reason, pause.Message, pause.At}
	}
	return c.JSON(http.StatusOK, answer)
}

// add queues a message. The same idempotency key gets the same answer and adds nothing.
func (h *queues) add(c echo.Context, key thread.Key) error {
	var body struct {
		Message        string   `json:"message"`
		ImageIDs       []string `json:"image_ids"`
		ClientID       string   `json:"client_id"`
		IdempotencyKey string   `json:"idempotency_key"`
		ScheduledAt    string   `json:"scheduled_at"`
	}
	if err := input.JSONOf(c, &body, maxMessageBody, false); err != nil {
		return err
	}
	if err := checkQueued(body.Message); err != nil {
		return err
	}
	at, err := h.readSchedule(body.ScheduledAt)
	if err != nil {
		return err
	}
	once, err := idempotencyKey(c, body.IdempotencyKey)
	if err != nil {
		return err
	}
	if err := h.images.check(c.Request().Context(), key, body.ImageIDs); err != nil {
		return err
	}
	saved, err := h.queue.Add(c.Request().Context(), key, queued.Message{
		Text: body.Message, ImageIDs: body.ImageIDs, ClientID: body.ClientID, IdempotencyKey: once, ScheduledAt: at,
	})
	switch {
	case errors.Is(err, queued.ErrFull):
		return &problem.Error{
			Status: http.StatusConflict, Code: "queue_full",
			Message: fmt.Sprintf("Queue is full. Maximum %d messages allowed.", h.queue.Settings().MaxSize),
		}
	case errors.Is(err, persistence.ErrConflict):
		return errKeyUsed
	case err != nil:
		return orThread(err)
	}
	return c.JSON(http.StatusCreated, showQueued(saved))
}

func checkQueued(text string) error {
	if strings.TrimSpace(text) == "" {
		return problem.BadRequest("empty_message", "message", "The message is empty.")
	}
	if len(text) > queued.MaxBytes {
		return problem.TooLarge("message", fmt.Sprintf("The message has %d bytes; the limit is %d.", len(text), queued.MaxBytes))
	}
	return nil
}

// readSchedule reads a time (RFC 3339) or a delay, such as 5m; nil for an empty text.
func (h *queues) readSchedule(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // as soon as possible
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return new(h.now().Add(d)), nil
	}
	return nil, problem.BadRequest("invalid_scheduled_at", "scheduled_at", "scheduled_at must be a time like 2026-12-24T18:00:00Z, or how long from now, like 5m.")
}

func (h *queues) clear(c echo.Context, key thread.Key) error {
	if _, err := h.queue.Clear(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (h *queues) resume(c echo.Context, key thread.Key) error {
	if err := h.queue.Resume(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	return h.answer(c, key)
}

var errNotQueued = problem.NotFound("message_not_found", "There is no such message in the queue.")

// onQueued serves with the thread and the message of the path.
func onQueued(serve func(c echo.Context, key thread.Key, id string) error) echo.HandlerFunc {
	return onThread(func(c echo.Context, key thread.Key) error {
		id := c.Param("msg_id")
		if !input.ValidID(id, maxThreadID) {
			return errNotQueued
		}
		return serve(c, key, id)
	})
}

// orQueued replaces errors about a queued message by readable ones.
func orQueued(err error) error {
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return errNotQueued
	case errors.Is(err, persistence.ErrConflict):
		return &problem.Error{Status: http.StatusConflict, Code: "message_sending", Message: "The message is being sent."}
	}
	return err
}

func (h *queues) read(c echo.Context, key thread.Key, id string) error {
	m, err := h.queue.Get(c.Request().Context(), key, id)
	if err != nil {
		return orQueued(err)
	}
	return c.JSON(http.StatusOK, showQueued(m))
}

func (h *queues) edit(c echo.Context, key thread.Key, id string) error {
	var body struct {
		Message string `json:"message"`
	}
	if err := input.JSONOf(c, &body, maxMessageBody, false); err != nil {
		return err
	}
	if err := checkQueued(body.Message); err != nil {
		return err
	}
	m, err := h.queue.Edit(c.Request().Context(), key, id, body.Message)
	if err != nil {
		return orQueued(err)
	}
	return c.JSON(http.StatusOK, showQueued(m))
}

func (h *queues) remove(c echo.Context, key thread.Key, id string) error {
	if err := h.queue.Remove(c.Request().Context(), key, id); err != nil {
		return orQueued(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (h *queues) move(c echo.Context, key thread.Key, id string) error {
	var body struct {
		Direction string `json:"direction"`
	}
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	if body.Direction != "up" && body.Direction != "down" {
		return problem.BadRequest("invalid_direction", "direction", "direction must be up or down.")
	}
	if err := h.queue.Move(c.Request().Context(), key, id, body.Direction == "up"); err != nil {
		return orQueued(err)
	}
	return h.answer(c, key)
}

// send sends a message at once, ahead of those before it.
func (h *queues) send(c echo.Context, key thread.Key, id string) error {
	err := h.queue.Send(c.Request().Context(), key, id)
	switch {
	case errors.Is(err, queue.ErrClosed):
		return problem.ErrShuttingDown
	case errors.Is(err, queue.ErrUnreachable):
		return &problem.Error{
			Status: http.StatusServiceUnavailable, Code: string(bridge.CodeUnreachable), RetryAfter: problem.ErrShuttingDown.RetryAfter,
			Message: "Another process of this server has the call and does not answer. Try again.",
		}
	case err != nil:
		return orQueued(err)
	}
	return h.answer(c, key)
}
