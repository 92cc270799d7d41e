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
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// turns serves the routes about a thread's turns.
type turns struct {
	calls   voiceCalls
	chat    textTurns
	store   messageReader
	live    *liveCall
	streams *streams
	chats   *chats
}

func (h *turns) routes(r router) {
	r.POST("/api/threads/:id/messages", onThread(h.post), r.user, r.text)
	r.POST("/api/threads/:id/interrupt", onThread(h.interrupt), r.user)
}

// textTurns is what the routes about a thread's turns need.
type textTurns interface {
	chatTurns
	Busy(ctx context.Context, key thread.Key) (bool, error)
	Answer(ctx context.Context, key thread.Key, asked thread.Message) (*chat.Turn, *chat.Followed, error)
	Count() int
}

// maxMessageBody limits a body with a user's text. The text's own limit is chat.MaxText; JSON may
// need six bytes for one byte of text.
const maxMessageBody = input.MaxBody

// interruptWait is how long an interruption waits for the answer so far to be saved.
const interruptWait = 5 * time.Second

// turnAnswer is an ended turn, for clients that do not want a stream.
type turnAnswer struct {
	TurnID string `json:"turn_id"`
	// Message is the answer, UserMessage what it answers.
	Message      thread.Message    `json:"message"`
	UserMessage  *thread.Message   `json:"user_message,omitempty"`
	FinishReason chat.FinishReason `json:"finish_reason"`
}

// post takes what a user types. It goes into the thread's live call, or else begins a text turn. Without
// the messages of useChat, an answer can be regenerated as well.
func (h *turns) post(c echo.Context, key thread.Key) error {
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
		return h.chats.post(c, key, chat, body.Instructions)
	}
	if body.Trigger == triggerRegenerate {
		if err := h.live.refuse(c.Request().Context(), key); err != nil {
			return orThread(err)
		}
		return h.run(c, key, nil, func() (anyTurn, error) {
			return h.regenerate(c.Request().Context(), key, body.MessageID, body.Instructions)
		})
	}
	if strings.TrimSpace(body.Content) == "" && len(body.ImageIDs) == 0 {
		return problem.BadRequest("empty_content", "content", "content is empty.")
	}
	if err := checkImages(c.Request().Context(), h.store, key, body.ImageIDs); err != nil {
		return err
	}
	once, err := idempotencyKey(c, body.IdempotencyKey)
	if err != nil {
		return err
	}
	return h.take(c, chat.TurnRequest{
		Key: key, Text: body.Content, ImageIDs: body.ImageIDs, Instructions: body.Instructions, MessageID: messageID(key.Thread, once),
	})
}

// take takes a text. One that is sent again is said only once.
func (h *turns) take(c echo.Context, req chat.TurnRequest) error {
	ctx, before := c.Request().Context(), repeats{h.chat, h.store}
	if asked, answer, err := before.find(ctx, req); asked != nil || err != nil {
		return h.again(c, req.Key, asked, answer, err)
	}
	images := func() ([]string, error) { return req.ImageIDs, nil }
	answer, err := h.live.say(ctx, req.Key, req.MessageID, req.Text, images, req.Instructions)
	switch {
	case err != nil:
		return orThread(err)
	case answer != nil:
		return h.saidInCall(c, *answer)
	}
	err = h.run(c, req.Key, nil, func() (anyTurn, error) { return h.chat.Turn(ctx, req) })
	if before.mayHave(ctx, req, err) {
		if asked, answer, err := before.find(ctx, req); asked != nil || err != nil {
			return h.again(c, req.Key, asked, answer, err)
		}
	}
	return err
}

// again answers a request whose message the thread has already: as the first time, or by another turn if that has failed.
func (h *turns) again(c echo.Context, key thread.Key, asked *thread.Message, answer anyTurn, err error) error {
	ctx := c.Request().Context()
	switch {
	case err != nil:
		return orThread(err)
	case asked.Metadata.CallID != "":
		return h.saidInCall(c, intoCallAnswer{CallID: asked.Metadata.CallID, UserMessage: *asked})
	case answer != nil:
		return h.run(c, key, asked, func() (anyTurn, error) { return answer, nil })
	}
	if err := h.live.refuse(ctx, key); err != nil {
		return orThread(err)
	}
	return h.run(c, key, asked, func() (anyTurn, error) {
		return h.chat.Turn(ctx, chat.TurnRequest{Key: key, Saved: true, MessageID: asked.ID})
	})
}

// saidInCall answers a request whose text is said in the live call.
func (h *turns) saidInCall(c echo.Context, answer intoCallAnswer) error {
	if isStream(c) {
		h.streams.intoCall(c, answer)
		return nil
	}
	return c.JSON(http.StatusAccepted, answer)
}

// run begins or finds a turn, and answers with its events or, once it has ended, with the whole of it. A client
// that goes away does not end it. asked is the message that it answers, nil if the turn saves that itself.
func (h *turns) run(c echo.Context, key thread.Key, asked *thread.Message, begin func() (anyTurn, error)) error {
	found := func() (anyTurn, error) {
		t, err := begin()
		input.Release(c)
		return t, orThread(err)
	}
	if isStream(c) {
		return h.streams.stream(c, key, -1, found, streamForm{})
	}
	t, err := found()
	if err != nil {
		return err
	}
	if t, ok := t.(*chat.Turn); ok && t.User().ID != "" {
		asked = new(t.User())
	}
	return h.answer(c, key, t, asked)
}

// regenerate begins a turn that answers a message again: the one with the id, or the one that the
// message with the id answers; without an id, the last one. What was said since stays.
func (h *turns) regenerate(ctx context.Context, key thread.Key, messageID string, instructions []string) (*chat.Turn, error) {
	asked, err := h.chat.Asked(ctx, key, messageID)
	if err != nil {
		return nil, err
	}
	return h.chat.Turn(ctx, chat.TurnRequest{Key: key, Saved: true, MessageID: asked.ID, Instructions: instructions})
}

// answer waits for the end of a turn and returns it.
func (h *turns) answer(c echo.Context, key thread.Key, t anyTurn, asked *thread.Message) error {
	waitLong(c)
	result, err := t.Wait(c.Request().Context())
	answerSoon(c)
	if err != nil {
		return fmt.Errorf("wait for the answer: %w", err)
	}
	saved := result.Message.Parts != nil
	if !saved {
		if _, err := h.store.Thread(c.Request().Context(), key); err != nil {
			return orThread(err) // it was deleted meanwhile, or the database is away
		}
	}
	switch {
	case result.Err != nil:
		return result.Err
	case !saved:
		return fmt.Errorf("save answer: %w", persistence.ErrUnavailable)
	}
	return c.JSON(http.StatusOK, turnAnswer{TurnID: result.TurnID, Message: result.Message, UserMessage: asked, FinishReason: result.Finish})
}

// interrupt stops the thread's turn, including the answer of its live call. It waits until a text
// turn is saved, so that the next message is not refused. It says so if there was nothing to stop.
func (h *turns) interrupt(c echo.Context, key thread.Key) error {
	ctx := c.Request().Context()
	if _, err := h.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	interrupted, err := h.calls.Interrupt(ctx, key)
	if err != nil {
		return err
	}
	turn := h.chat.Running(key)
	if turn != nil && turn.Ended() {
		turn = nil
	}
	err = h.chat.Interrupt(ctx, key)
	if errors.Is(err, chat.ErrIdle) {
		return c.JSON(http.StatusOK, map[string]any{"interrupted": interrupted})
	}
	if err != nil {
		return err
	}
	stopped := true
	if turn != nil {
		wait, cancel := context.WithTimeout(ctx, interruptWait)
		defer cancel()
		if result, err := turn.Wait(wait); err == nil {
			stopped = result.Finish == chat.FinishInterrupted
		}
	}
	interrupted = interrupted || stopped
	return c.JSON(http.StatusOK, map[string]any{"interrupted": interrupted})
}
