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
}

func (h *turns) routes(r router) {
	r.POST("/api/threads/:id/messages", onThread(h.post), r.user, r.text)
	r.POST("/api/threads/:id/interrupt", onThread(h.interrupt), r.user)
}

// messageReader reads threads, their messages and images.
type messageReader interface {
	threadReader
	Message(ctx context.Context, key persistence.Key, id string) (persistence.Message, error)
	Image(ctx context.Context, key persistence.Key, id string) (persistence.Image, error)
}

// textTurns is what the routes about a thread's turns need.
type textTurns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	Running(key persistence.Key) *chat.Turn
	Follow(ctx context.Context, key persistence.Key) (*chat.Followed, error)
	Busy(ctx context.Context, key persistence.Key) (bool, error)
	Interrupt(ctx context.Context, key persistence.Key) error
	Decide(ctx context.Context, key persistence.Key, d chat.Decision) error
	Asked(ctx context.Context, key persistence.Key, messageID string) (persistence.Message, error)
	Answer(ctx context.Context, key persistence.Key, asked persistence.Message) (*chat.Turn, *chat.Followed, error)
	KeepImages(ctx context.Context, key persistence.Key, images []chat.Image) (ids []string, err error)
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
	Message      persistence.Message  `json:"message"`
	UserMessage  *persistence.Message `json:"user_message,omitempty"`
	FinishReason chat.FinishReason    `json:"finish_reason"`
}

// post takes what a user types. It goes into the thread's live call, or else begins a text turn. Without
// the messages of useChat, an answer can be regenerated as well.
func (h *turns) post(c echo.Context, key persistence.Key) error {
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
	if err := h.checkImages(c.Request().Context(), key, body.ImageIDs); err != nil {
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
	if req.MessageID != "" && (errors.Is(err, chat.ErrBusy) || errors.Is(err, persistence.ErrConflict)) { // the first may just have arrived
		before.wait(ctx, req.Key)
		if asked, answer, err := before.find(ctx, req); asked != nil || err != nil {
			return h.again(c, req.Key, asked, answer, err)
		}
	}
	return err
}

// again answers a request whose message the thread has already: as the first time, or by another turn if that has failed.
func (h *turns) again(c echo.Context, key persistence.Key, asked *persistence.Message, answer anyTurn, err error) error {
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
		return h.chat.Turn(ctx, chat.TurnRequest{Key: key, Saved: true, Replace: true, MessageID: asked.ID})
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
func (h *turns) run(c echo.Context, key persistence.Key, asked *persistence.Message, begin func() (anyTurn, error)) error {
	found := func() (anyTurn, error) {
		t, err := begin()
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
	return h.answer(c, t, asked)
}

// regenerate begins a turn that answers a message again: the one with the id, or the one that the
// message with the id answers; without an id, the last one. What was said since stays.
func (h *turns) regenerate(ctx context.Context, key persistence.Key, messageID string, instructions []string) (*chat.Turn, error) {
	asked, err := h.chat.Asked(ctx, key, messageID)
	if err != nil {
		return nil, err
	}
	return h.chat.Turn(ctx, chat.TurnRequest{Key: key, Saved: true, Replace: true, MessageID: asked.ID, Instructions: instructions})
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

// postChat answers useChat, always with a stream. When the client goes away, which is how its stop
// works, the turn ends.
func (h *turns) postChat(c echo.Context, key persistence.Key, body *useChat, instructions []string) error {
	if len(body.Messages) == 0 {
		return problem.BadRequest("empty_content", "messages", "messages is empty.")
	}
	inStates, err := sdkAsksInStates(c)
	if err != nil {
		return err
	}
	last := &body.Messages[len(body.Messages)-1]
	if decided := last.decisions(key.Owner); last.Role == string(persistence.RoleAssistant) && body.Trigger != triggerRegenerate {
		if len(decided) == 0 {
			return problem.BadRequest("invalid_value", "messages", "The last message must be from the user, or hold answers to approvals.")
		}
		return h.resumeTurn(c, key, last.ID, decided)
	}
	var text string
	var images []chat.Image
	if last.Role != string(persistence.RoleAssistant) {
		text, images = last.userInput()
	}
	if done, err := h.chatInCall(c, key, body, text, images, instructions); done || err != nil {
		return err
	}
	var turn *chat.Turn
	begin := func() (t anyTurn, err error) {
		turn, err = h.beginChat(c.Request().Context(), key, body, chat.TurnRequest{Key: key, Text: text, Images: images, Instructions: instructions})
		return turn, orThread(err)
	}
	err = h.streams.stream(c, key, -1, begin, streamForm{inStates: inStates})
	if turn != nil && c.Request().Context().Err() != nil {
		turn.Interrupt()
	}
	return err
}

// chatInCall puts what useChat sends into the thread's live call and answers the request. It returns
// false if there is no such call. A call's answers cannot be regenerated.
func (h *turns) chatInCall(c echo.Context, key persistence.Key, body *useChat, text string, images []chat.Image, instructions []string) (bool, error) {
	ctx := c.Request().Context()
	if body.Trigger == triggerRegenerate {
		return false, orThread(h.live.refuse(ctx, key))
	}
	keep := func() ([]string, error) { return h.chat.KeepImages(ctx, key, images) }
	answer, err := h.live.say(ctx, key, "", text, keep, instructions)
	if err != nil || answer == nil {
		return false, orThread(err)
	}
	h.streams.intoCall(c, *answer)
	return true, nil
}

// beginChat begins the turn that useChat asks for. What the client shows last counts: a message that is already in the
// thread, as in a retried request, is answered again; a new one is said, even to regenerate, which is how a client
// retries what was refused. Where the user went back, the client has cut off what came after, and so it is left
// out of the model's context here, though the thread keeps it. A message that the user has edited, which keeps its id
// there, is a new one here.
func (h *turns) beginChat(ctx context.Context, key persistence.Key, body *useChat, req chat.TurnRequest) (*chat.Turn, error) {
	id := body.Messages[len(body.Messages)-1].ID
	asked, edited, err := h.askedBefore(ctx, key, body, req)
	if err == nil && !edited {
		again := chat.TurnRequest{Key: key, Saved: true, Replace: true, MessageID: asked.ID, Instructions: req.Instructions}
		if body.Trigger == triggerRegenerate || body.MessageID == id {
			again.Back = asked.ID
		}
		return h.chat.Turn(ctx, again)
	}
	if err == nil {
		req.Back, req.SentAs = asked.ID, id
		return h.chat.Turn(ctx, req)
	}
	if !errors.Is(err, chat.ErrNoMessage) {
		return nil, err
	}
	if input.ValidID(id, persistence.MaxIDBytes) {
		req.MessageID = id
	}
	t, err := h.chat.Turn(ctx, req)
	if errors.Is(err, persistence.ErrConflict) { // another thread's message has this id, or one before a reset
		req.MessageID, req.SentAs = "", id
		t, err = h.chat.Turn(ctx, req)
	}
	return t, err
}

// askedBefore finds the user's message in the thread that useChat wants to be answered; edited means that it has other
// words now. chat.ErrNoMessage means that it is new.
func (h *turns) askedBefore(ctx context.Context, key persistence.Key, body *useChat, req chat.TurnRequest) (asked persistence.Message, edited bool, err error) {
	again, last := body.Trigger == triggerRegenerate, body.Messages[len(body.Messages)-1].ID
	says := strings.TrimSpace(req.Text) != "" || len(req.Images) > 0
	if input.ValidID(last, persistence.MaxIDBytes) {
		asked, err = h.chat.Asked(ctx, key, last)
		if !errors.Is(err, chat.ErrNoMessage) {
			return asked, err == nil && says && !saysTheSame(asked, req), err
		}
	}
	if again && input.ValidID(body.MessageID, persistence.MaxIDBytes) {
		asked, err = h.chat.Asked(ctx, key, body.MessageID)
		if !errors.Is(err, chat.ErrNoMessage) {
			return asked, false, err
		}
	}
	if again {
		asked, err = h.chat.Asked(ctx, key, "")
		if err == nil && (!says || saysTheSame(asked, req)) || err != nil && !errors.Is(err, chat.ErrEmpty) {
			return asked, false, err
		}
	}
	return asked, false, chat.ErrNoMessage
}

// resumeTurn takes the decisions on approvals in an answer, and resumes its stream, which ended at the questions.
func (h *turns) resumeTurn(c echo.Context, key persistence.Key, messageID string, decided []chat.Decision) error {
	answered := map[string]bool{}
	for _, d := range decided {
		err := h.chat.Decide(c.Request().Context(), key, d)
		if err != nil && !errors.Is(err, chat.ErrNotAsked) { // those of earlier turns stay in the message
			return orThread(err)
		}
		if err == nil {
			answered[d.ToolCallID] = true
		}
	}
	notAsked := &chat.CallError{CallID: decided[len(decided)-1].ToolCallID, Err: chat.ErrNotAsked}
	if len(answered) == 0 {
		return notAsked
	}
	form := streamForm{inStates: true, after: answered}
	// An earlier turn that ended here does not hide the one that another process runs.
	if t := h.chat.Running(key); t != nil && (!t.Ended() || t.MessageID() == messageID) {
		err := h.streams.stream(c, key, -1, func() (anyTurn, error) { return t, nil }, form)
		if c.Request().Context().Err() != nil {
			t.Interrupt()
		}
		return err
	}
	t, err := h.chat.Follow(c.Request().Context(), key)
	if errors.Is(err, chat.ErrIdle) {
		return notAsked
	}
	if err != nil {
		return orThread(err)
	}
	err = h.streams.stream(c, key, -1, func() (anyTurn, error) { return t, nil }, form)
	if ctx := c.Request().Context(); ctx.Err() != nil {
		_ = h.chat.Interrupt(context.WithoutCancel(ctx), key) // nobody is there to receive an error
	}
	return err
}

// answer waits for the end of a turn and returns it.
func (h *turns) answer(c echo.Context, t anyTurn, asked *persistence.Message) error {
	waitLong(c)
	result, err := t.Wait(c.Request().Context())
	answerSoon(c)
	if err != nil {
		return fmt.Errorf("wait for the answer: %w", err)
	}
	if result.Err != nil {
		return result.Err
	}
	answer := turnAnswer{TurnID: result.TurnID, Message: result.Message, UserMessage: asked, FinishReason: result.Finish}
	if answer.Message.Parts == nil {
		return errors.New("the answer could not be saved")
	}
	return c.JSON(http.StatusOK, answer)
}

// interrupt stops the thread's turn, including the answer of its live call. It waits until a text
// turn is saved, so that the next message is not refused. It says so if there was nothing to stop.
func (h *turns) interrupt(c echo.Context, key persistence.Key) error {
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
