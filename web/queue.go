package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/chat/queue"
	"voicebridge/persistence"
)

// messageQueue keeps what waits until a thread is free; *queue.Queue does.
type messageQueue interface {
	queueLooks
	queueChanges
}

type queueLooks interface {
	Settings() queue.Settings
	List(ctx context.Context, key persistence.Key) ([]persistence.QueuedMessage, *persistence.QueuePause, error)
	Length(ctx context.Context, key persistence.Key) (int, error)
	Get(ctx context.Context, key persistence.Key, id string) (persistence.QueuedMessage, error)
}

type queueChanges interface {
	Add(ctx context.Context, key persistence.Key, m persistence.QueuedMessage) (persistence.QueuedMessage, error)
	Edit(ctx context.Context, key persistence.Key, id, text string) (persistence.QueuedMessage, error)
	Move(ctx context.Context, key persistence.Key, id string, up bool) error
	Remove(ctx context.Context, key persistence.Key, id string) error
	Clear(ctx context.Context, key persistence.Key) (int, error)
	Send(ctx context.Context, key persistence.Key, id string) error
	Resume(ctx context.Context, key persistence.Key) error
}

// queueRoutes registers the queue's routes below a thread's path.
func (s *Server) queueRoutes(thread string) {
	e, user := s.echo, s.authenticated
	e.GET(thread+"/queue", s.listQueue, user)
	e.POST(thread+"/queue", s.addToQueue, user)
	e.DELETE(thread+"/queue", s.clearQueue, user)
	e.POST(thread+"/queue/resume", s.resumeQueue, user)
	e.GET(thread+"/queue/:msg_id", s.readQueued, user)
	e.PATCH(thread+"/queue/:msg_id", s.editQueued, user)
	e.DELETE(thread+"/queue/:msg_id", s.removeQueued, user)
	e.POST(thread+"/queue/:msg_id/move", s.moveQueued, user)
	e.POST(thread+"/queue/:msg_id/send", s.sendQueued, user)
}

// queuedAnswer is a message that waits, as clients see it.
type queuedAnswer struct {
	ID          string                 `json:"id"`
	Message     string                 `json:"message"`
	QueuedAt    time.Time              `json:"queued_at"`
	Title       string                 `json:"title"`
	State       persistence.QueueState `json:"state"`
	ImageIDs    []string               `json:"image_ids,omitempty"`
	ClientID    string                 `json:"client_id,omitempty"`
	Key         string                 `json:"idempotency_key,omitempty"`
	ScheduledAt *time.Time             `json:"scheduled_at,omitempty"`
	Attempts    int                    `json:"attempts,omitempty"`
	// Error is why the last attempt failed, NotBefore when the next comes.
	Error     string     `json:"error,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
}

func showQueued(m persistence.QueuedMessage) queuedAnswer {
	return queuedAnswer{
		ID: m.ID, Message: m.Text, QueuedAt: m.QueuedAt, Title: m.Title, State: m.State, ImageIDs: m.ImageIDs, ClientID: m.ClientID,
		Key: m.IdempotencyKey, ScheduledAt: m.ScheduledAt, Attempts: m.Attempts, Error: m.Error, NotBefore: m.NotBefore,
	}
}

type queueAnswer struct {
	Messages []queuedAnswer `json:"messages"`
	Count    int            `json:"count"`
	// Paused says why the queue stands still; null while it does not.
	Paused *pauseAnswer `json:"paused"`
}

type pauseAnswer struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// answerQueue tells what waits.
func (s *Server) answerQueue(c echo.Context, key persistence.Key) error {
	list, pause, err := s.queue.List(c.Request().Context(), key)
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

func (s *Server) listQueue(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	return s.answerQueue(c, key)
}

// addToQueue takes a message that waits its turn. The same idempotency key again
// gives the same answer and adds nothing.
func (s *Server) addToQueue(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	var body struct {
		Message        string   `json:"message"`
		ImageIDs       []string `json:"image_ids"`
		ClientID       string   `json:"client_id"`
		IdempotencyKey string   `json:"idempotency_key"`
		ScheduledAt    string   `json:"scheduled_at"`
	}
	if err := readJSONOf(c, &body, maxMessageBody, false); err != nil {
		return err
	}
	if err := checkQueued(body.Message); err != nil {
		return err
	}
	m := persistence.QueuedMessage{
		Text: body.Message, ImageIDs: body.ImageIDs, ClientID: body.ClientID, IdempotencyKey: body.IdempotencyKey,
	}
	if m.ScheduledAt, err = s.readSchedule(body.ScheduledAt); err != nil {
		return err
	}
	saved, err := s.queue.Add(c.Request().Context(), key, m)
	switch {
	case errors.Is(err, persistence.ErrQueueFull):
		return &apiError{
			Status: http.StatusConflict, Code: "queue_full",
			Message: fmt.Sprintf("Queue is full. Maximum %d messages allowed.", s.queue.Settings().MaxSize),
		}
	case errors.Is(err, persistence.ErrConflict):
		return &apiError{
			Status: http.StatusConflict, Code: "idempotency_key_used", Param: "idempotency_key",
			Message: "The idempotency key belongs to another message of this thread.",
		}
	case err != nil:
		return orThread(err)
	}
	return c.JSON(http.StatusCreated, showQueued(saved))
}

func checkQueued(text string) error {
	if strings.TrimSpace(text) == "" {
		return badRequest("empty_message", "message", "The message is empty.")
	}
	if len(text) > persistence.MaxQueuedBytes {
		return tooLarge("message", fmt.Sprintf("The message has %d bytes; the limit is %d.", len(text), persistence.MaxQueuedBytes))
	}
	return nil
}

// readSchedule reads a time (RFC 3339) or how long from now, such as 5m; nil for
// an empty text.
func (s *Server) readSchedule(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // as soon as possible
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return new(s.now().Add(d)), nil
	}
	return nil, badRequest("invalid_scheduled_at", "scheduled_at", "scheduled_at must be a time like 2026-12-24T18:00:00Z, or how long from now, like 5m.")
}

func (s *Server) clearQueue(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	if _, err := s.queue.Clear(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) resumeQueue(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	if err := s.queue.Resume(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	return s.answerQueue(c, key)
}

var errNotQueued = notFound("message_not_found", "There is no such message in the queue.")

// queuedKey reads the thread and the message of the path.
func queuedKey(c echo.Context) (persistence.Key, string, error) {
	key, err := threadKey(c)
	if err != nil {
		return key, "", err
	}
	id := c.Param("msg_id")
	if !validID(id, maxThreadID) {
		return key, "", errNotQueued
	}
	return key, id, nil
}

// orQueued gives a failure that is about a message of the queue its words.
func orQueued(err error) error {
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return errNotQueued
	case errors.Is(err, persistence.ErrConflict):
		return &apiError{Status: http.StatusConflict, Code: "message_sending", Message: "The message is being sent at this moment."}
	}
	return err
}

func (s *Server) readQueued(c echo.Context) error {
	key, id, err := queuedKey(c)
	if err != nil {
		return err
	}
	m, err := s.queue.Get(c.Request().Context(), key, id)
	if err != nil {
		return orQueued(err)
	}
	return c.JSON(http.StatusOK, showQueued(m))
}

func (s *Server) editQueued(c echo.Context) error {
	key, id, err := queuedKey(c)
	if err != nil {
		return err
	}
	var body struct {
		Message string `json:"message"`
	}
	if err := readJSONOf(c, &body, maxMessageBody, false); err != nil {
		return err
	}
	if err := checkQueued(body.Message); err != nil {
		return err
	}
	m, err := s.queue.Edit(c.Request().Context(), key, id, body.Message)
	if err != nil {
		return orQueued(err)
	}
	return c.JSON(http.StatusOK, showQueued(m))
}

func (s *Server) removeQueued(c echo.Context) error {
	key, id, err := queuedKey(c)
	if err != nil {
		return err
	}
	if err := s.queue.Remove(c.Request().Context(), key, id); err != nil {
		return orQueued(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) moveQueued(c echo.Context) error {
	key, id, err := queuedKey(c)
	if err != nil {
		return err
	}
	var body struct {
		Direction string `json:"direction"`
	}
	if err := readJSON(c, &body, false); err != nil {
		return err
	}
	if body.Direction != "up" && body.Direction != "down" {
		return badRequest("invalid_direction", "direction", "direction must be up or down.")
	}
	if err := s.queue.Move(c.Request().Context(), key, id, body.Direction == "up"); err != nil {
		return orQueued(err)
	}
	return s.answerQueue(c, key)
}

// sendQueued sends a message at once, whatever stands before it.
func (s *Server) sendQueued(c echo.Context) error {
	key, id, err := queuedKey(c)
	if err != nil {
		return err
	}
	err = s.queue.Send(c.Request().Context(), key, id)
	switch {
	case errors.Is(err, queue.ErrClosed):
		return errShuttingDown
	case err != nil:
		return orQueued(err)
	}
	return s.answerQueue(c, key)
}
