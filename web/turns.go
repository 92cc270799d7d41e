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

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// turns serves the routes about a thread's turns.
type turns struct {
	calls   voiceCalls
	chat    textTurns
	store   imageReader
	live    *liveCall
	streams *streams
}

func (h *turns) routes(r router) {
	r.POST("/api/threads/:id/messages", h.post, r.user, r.turn)
	r.POST("/api/threads/:id/interrupt", h.interrupt, r.user)
}

// imageReader reads threads and their images.
type imageReader interface {
	threadReader
	Image(ctx context.Context, key persistence.Key, id string) (persistence.Image, error)
}

// textChat answers by text; *chat.Coordinator implements it.
type textChat interface {
	textTurns
	textSessions
}

// textTurns is what the routes about a thread's turns need.
type textTurns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	Running(key persistence.Key) *chat.Turn
	Follow(ctx context.Context, key persistence.Key) (*chat.Followed, error)
	Busy(ctx context.Context, key persistence.Key) (bool, error)
	Interrupt(ctx context.Context, key persistence.Key) error
	Decide(ctx context.Context, key persistence.Key, d chat.Decision) error
	Asked(ctx context.Context, key persistence.Key, messageID string) (string, error)
	Count() int
}

// maxMessageBody limits a body with a user's text. The text's own limit is chat.MaxText; JSON may
// need six bytes for one.
const maxMessageBody = input.MaxBody

// interruptWait is how long an interruption waits for the answer so far to be saved.
const interruptWait = 5 * time.Second

// turnAnswer is an ended turn, for clients that do not want a stream.
type turnAnswer struct {
	TurnID string `json:"turn_id"`
	// Message is the answer, UserMessage what it answers.
	Message      persistence.Message  `json:"message"`
	UserMessage  *persistence.Message `json:"user_message,omitempty"`
	FinishReason chat.FinishReason    `json:"finish_reason"`
}

// post takes what a user types. In a live call it is said there; otherwise it begins a text turn.
func (h *turns) post(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	var body struct {
		Content      string          `json:"content"`
		ImageIDs     []string        `json:"image_ids"`
		Instructions texts           `json:"instructions"`
		Messages     json.RawMessage `json:"messages"` // from useChat
		Trigger      string          `json:"trigger"`
		MessageID    string          `json:"messageId"`
	}
	if err := input.JSONOf(c, &body, maxChatBody, false); err != nil {
		return err
	}
	if chat, ok, err := readUseChat(body.Messages, body.Trigger, body.MessageID); ok || err != nil {
		if err != nil {
			return err
		}
		return h.postChat(c, key, chat, body.Instructions)
	}
	if strings.TrimSpace(body.Content) == "" && len(body.ImageIDs) == 0 {
		return problem.BadRequest("empty_content", "content", "content is empty.")
	}
	if err := h.checkImages(c.Request().Context(), key, body.ImageIDs); err != nil {
		return err
	}
	if said, err := h.say(c, key, body.Content, body.ImageIDs, body.Instructions); said || err != nil {
		return orThread(err)
	}
	begin := func() (*chat.Turn, error) {
		t, err := h.chat.Turn(c.Request().Context(), chat.TurnRequest{
			Key: key, Text: body.Content, ImageIDs: body.ImageIDs, Instructions: body.Instructions,
		})
		return t, orThread(err)
	}
	if isStream(c) {
		return h.streams.follow(c, key, -1, begin)
	}
	t, err := begin()
	if err != nil {
		return err
	}
	return h.answer(c, t)
}

// checkImages reports images that do not exist.
func (h *turns) checkImages(ctx context.Context, key persistence.Key, ids []string) error {
	if len(ids) > chat.MaxImages {
		return problem.BadRequest("invalid_value", "image_ids", fmt.Sprintf("image_ids has more than %d ids.", chat.MaxImages))
	}
	for _, id := range ids {
		if _, err := h.store.Image(ctx, key, id); errors.Is(err, persistence.ErrNotFound) {
			return problem.BadRequest("unknown_image", "image_ids", fmt.Sprintf("There is no image %.80q on this thread.", id))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// say puts a text, with images of the thread, into the thread's live call and answers the request.
// It returns false if there is no such call.
func (h *turns) say(c echo.Context, key persistence.Key, text string, imageIDs, instructions []string) (bool, error) {
	ctx := c.Request().Context()
	if err := h.calls.Free(ctx, key); err != nil {
		return false, err
	}
	callID, ok := h.calls.Live(key.Owner, key.Thread)
	if !ok {
		rec, err := h.live.store.LiveCall(ctx, key)
		if errors.Is(err, persistence.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		callID = rec.ID // another instance has it, or it has just begun
	}
	if len(instructions) > 0 {
		return false, problem.BadRequest("invalid_value", "instructions", "The thread has a live call, which has its own instructions: send the text alone.")
	}
	m, err := h.calls.Say(ctx, key.Owner, key.Thread, text, imageIDs)
	if e, isBridge := errors.AsType[*bridge.Error](err); isBridge && e.Code == bridge.CodeNoCall {
		if !ok {
			return false, errCallElsewhere
		}
		return false, nil
	}
	if errors.Is(err, persistence.ErrNotFound) {
		return false, errCallElsewhere
	}
	if err != nil {
		return false, err
	}
	answer := intoCallAnswer{CallID: callID, UserMessage: m}
	if isStream(c) {
		h.streams.intoCall(c, answer)
		return true, nil
	}
	return true, c.JSON(http.StatusAccepted, answer)
}

// answer waits for the end of a turn and returns it.
func (h *turns) answer(c echo.Context, t *chat.Turn) error {
	waitLong(c)
	result, err := t.Wait(c.Request().Context())
	answerSoon(c)
	if err != nil {
		return fmt.Errorf("wait for the answer: %w", err)
	}
	if result.Err != nil {
		return result.Err
	}
	answer := turnAnswer{TurnID: result.TurnID, Message: result.Message, FinishReason: result.Finish}
	if answer.Message.Parts == nil {
		return errors.New("the answer could not be saved")
	}
	if u := t.User(); u.ID != "" {
		answer.UserMessage = &u
	}
	return c.JSON(http.StatusOK, answer)
}

// interrupt stops the thread's turn, including the answer of its live call. It waits until a text
// turn is saved, so that the next message is not refused. It says so if there was nothing to stop.
func (h *turns) interrupt(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := h.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	interrupted, err := h.calls.Interrupt(ctx, key)
	if err != nil {
		return err
	}
	turn := h.chat.Running(key)
	if turn != nil && hasEnded(turn) {
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
