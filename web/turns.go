package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// turns serves the routes about a thread's turns.
type turns struct{ *api }

func (h turns) routes(r router) {
	r.POST("/api/threads/:id/messages", onThread(h.post), r.ofThread, r.text)
	route(r.passing(), "POST /api/threads/:id/interrupt", h.interrupt)
}

// interruptWait is how long an interruption waits for the answer so far to be saved.
const interruptWait = 5 * time.Second

// turnAnswer is an ended turn, for clients that do not want a stream.
type turnAnswer struct {
	TurnID string `json:"turn_id"`
	// Message is the answer.
	Message thread.Message `json:"message"`
	// UserMessage is what it answers.
	UserMessage  *thread.Message   `json:"user_message,omitempty"`
	FinishReason chat.FinishReason `json:"finish_reason" openapi:"except: error"`
}

// post takes what a user types, in our form or in that of useChat, and answers with the turn's events or, once it has
// ended, with the whole of it. A client that goes away does not end it.
func (h turns) post(c echo.Context, key thread.Key) error {
	var body struct {
		Content        string          `json:"content"`
		ImageIDs       []string        `json:"image_ids"`
		Instructions   texts           `json:"instructions"`
		IdempotencyKey string          `json:"idempotency_key"`
		Messages       json.RawMessage `json:"messages"` // from useChat
		Trigger        string          `json:"trigger"`
		MessageID      string          `json:"messageId"`
	}
	if err := readChatBody(c, &body); err != nil {
		return err
	}
	if chat, ok, err := readUseChat(body.Messages, body.Trigger, body.MessageID); ok || err != nil {
		if err != nil {
			return err
		}
		return h.postChat(c, key, chat, body.Instructions)
	}
	req := chat.TurnRequest{Key: key, Instructions: body.Instructions}
	mode := chat.Mode{Regenerate: body.Trigger == triggerRegenerate, Of: body.MessageID}
	if !mode.Regenerate {
		if strings.TrimSpace(body.Content) == "" && len(body.ImageIDs) == 0 {
			return problem.BadRequest("empty_content", "content", "content is empty.")
		}
		if err := h.checkImages(c.Request().Context(), key, body.ImageIDs); err != nil {
			return err
		}
		once, err := idempotencyKey(c, body.IdempotencyKey)
		if err != nil {
			return err
		}
		req.Text, req.ImageIDs = body.Content, body.ImageIDs
		mode = chat.Mode{Once: once}
	}
	say := h.say(c, req, mode)
	if isStream(c) {
		return h.stream(c, key, -1, say, streamForm{})
	}
	answer, err := say()
	switch {
	case err != nil:
		return err
	case answer.Reply == nil:
		return c.JSON(http.StatusAccepted, intoCallAnswer{answer.CallID, answer.Message})
	}
	return h.whole(c, key, answer)
}

// whole waits for the end of a turn and returns it.
func (h turns) whole(c echo.Context, key thread.Key, answer chat.Answer) error {
	waitLong(c)
	result, err := answer.Reply.Wait(c.Request().Context())
	answerSoon(c)
	if err != nil {
		return fmt.Errorf("wait for the answer: %w", err)
	}
	saved := result.Message.Parts != nil
	if !saved {
		if _, err := h.Store.Thread(c.Request().Context(), key); err != nil {
			return orThread(err) // it was deleted meanwhile, or the database is away
		}
	}
	switch {
	case result.Err != nil:
		return result.Err
	case !saved:
		return fmt.Errorf("save answer: %w", persistence.ErrUnavailable)
	}
	out := turnAnswer{TurnID: result.TurnID, Message: result.Message, FinishReason: result.Finish}
	if answer.Message.ID != "" {
		out.UserMessage = &answer.Message
	}
	return c.JSON(http.StatusOK, out)
}

type interruption struct {
	Interrupted bool `json:"interrupted"`
}

// interrupt stops the thread's turn, including the answer of its live call. It waits until a text
// turn is saved, so that the next message is not refused. It says so if there was nothing to stop.
func (h turns) interrupt(ctx context.Context, _ caller, in oneThread) (answer interruption, err error) {
	if _, err := h.Store.Thread(ctx, in.Key); err != nil {
		return answer, orThread(err)
	}
	spoken, err := h.Calls.Interrupt(ctx, in.Key)
	if err != nil {
		return answer, err
	}
	turn := h.Chat.Running(in.Key)
	if turn != nil && turn.Ended() {
		turn = nil
	}
	err = h.Chat.Interrupt(ctx, in.Key)
	if errors.Is(err, chat.ErrIdle) {
		return interruption{spoken}, nil
	}
	if err != nil {
		return answer, err
	}
	stopped := true
	if turn != nil {
		wait, cancel := context.WithTimeout(ctx, interruptWait)
		defer cancel()
		if result, err := turn.Wait(wait); err == nil {
			stopped = result.Finish == chat.FinishInterrupted
		}
	}
	return interruption{spoken || stopped}, nil
}
