package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// chats answers the requests of useChat.
type chats struct {
	chat    chatTurns
	store   threadReader
	live    *liveCall
	streams *streams
}

// chatTurns is what useChat needs of text turns.
type chatTurns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	Running(key persistence.Key) *chat.Turn
	Follow(ctx context.Context, key persistence.Key) (*chat.Followed, error)
	Interrupt(ctx context.Context, key persistence.Key) error
	Decide(ctx context.Context, key persistence.Key, d chat.Decision) error
	Asked(ctx context.Context, key persistence.Key, messageID string) (persistence.Message, error)
	KeepImages(ctx context.Context, key persistence.Key, images []chat.Image) (ids []string, err error)
}

// post answers useChat, always with a stream. When the client goes away, which is how its stop
// works, the turn ends.
func (h *chats) post(c echo.Context, key persistence.Key, body *useChat, instructions []string) error {
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
		return h.decide(c, key, last, decided)
	}
	var text string
	var images []chat.Image
	if last.Role != string(persistence.RoleAssistant) {
		text, images = last.userInput()
	}
	if done, err := h.inCall(c, key, body, text, images, instructions); done || err != nil {
		return err
	}
	var turn *chat.Turn
	begin := func() (t anyTurn, err error) {
		ctx, req := c.Request().Context(), chat.TurnRequest{Key: key, Text: text, Images: images, Instructions: instructions}
		turn, err = h.begin(ctx, key, body, req)
		if errors.Is(err, chat.ErrBusy) && h.stops(ctx, key) {
			turn, err = h.begin(ctx, key, body, req)
		}
		return turn, orThread(err)
	}
	err = h.streams.stream(c, key, -1, begin, streamForm{inStates: inStates})
	if turn != nil && c.Request().Context().Err() != nil {
		turn.Interrupt()
	}
	return err
}

// stopGrace is how long a message waits for the end of the turn that its client has just stopped.
const stopGrace = 3 * time.Second

// stops waits a moment for the end of the thread's turn, and reports whether it came: a client that stops one turn and
// begins another does not wait for the first, whose end is noticed and saved a little later.
func (h *chats) stops(ctx context.Context, key persistence.Key) bool {
	grace, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	running, _, err := h.running(grace, key, "")
	if err == nil {
		_, err = running.Wait(grace)
	}
	return err == nil || errors.Is(err, chat.ErrIdle)
}

// inCall puts what useChat sends into the thread's live call and answers the request. It returns
// false if there is no such call. A call's answers cannot be regenerated. What a client sends again is said once.
func (h *chats) inCall(c echo.Context, key persistence.Key, body *useChat, text string, images []chat.Image, instructions []string) (bool, error) {
	ctx := c.Request().Context()
	if body.Trigger == triggerRegenerate {
		return false, orThread(h.live.refuse(ctx, key))
	}
	id := func(callID string) string {
		sent := body.Messages[len(body.Messages)-1].ID
		if sent == "" {
			return ""
		}
		return messageID(callID, fmt.Sprintf("%s %q %q", sent, text, images))
	}
	keep := func() ([]string, error) { return h.chat.KeepImages(ctx, key, images) }
	answer, err := h.live.say(ctx, key, id, text, keep, instructions)
	if err != nil || answer == nil {
		return false, orThread(err)
	}
	h.streams.intoCall(c, *answer)
	return true, nil
}

// begin begins the turn that useChat asks for. What the client shows last counts: a message that is already in the
// thread, as in a retried request, is answered again; a new one is said, even to regenerate, which is how a client
// retries what was refused. Where the user went back, the client has cut off what came after, and so it is left
// out of the model's context here, though the thread keeps it. A message that the user has edited, which keeps its id
// there, is a new one here.
func (h *chats) begin(ctx context.Context, key persistence.Key, body *useChat, req chat.TurnRequest) (*chat.Turn, error) {
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
func (h *chats) askedBefore(ctx context.Context, key persistence.Key, body *useChat, req chat.TurnRequest) (asked persistence.Message, edited bool, err error) {
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

// decide takes the decisions on approvals in the client's last message, an answer, and resumes its stream, which ended
// at the questions.
func (h *chats) decide(c echo.Context, key persistence.Key, last *uiMessage, decided []chat.Decision) error {
	ctx := c.Request().Context()
	notAsked := &chat.CallError{CallID: decided[len(decided)-1].ToolCallID, Err: chat.ErrNotAsked}
	t, stop, err := h.running(ctx, key, last.ID) // first, because a decision may end it
	if errors.Is(err, chat.ErrIdle) {
		return notAsked
	}
	if err != nil {
		return orThread(err)
	}
	answered := map[string]bool{}
	for _, d := range decided {
		err := h.chat.Decide(ctx, key, d)
		if err != nil && !errors.Is(err, chat.ErrNotAsked) { // those of earlier turns stay in the message
			return orThread(err)
		}
		if err == nil {
			answered[d.ToolCallID] = true
		}
	}
	if len(answered) == 0 {
		return notAsked
	}
	err = h.streams.stream(c, key, -1, func() (anyTurn, error) { return t, nil }, streamForm{inStates: true, answered: answered, open: last.open()})
	if ctx.Err() != nil {
		stop()
	}
	return err
}

// running finds the thread's turn, in any process, and how to stop it; chat.ErrIdle if there is none. One that has ended
// here is found if it has made the message.
func (h *chats) running(ctx context.Context, key persistence.Key, messageID string) (t anyTurn, stop func(), err error) {
	// An earlier turn that ended here does not hide the one that another process runs.
	if here := h.chat.Running(key); here != nil && (!here.Ended() || here.MessageID() == messageID) {
		return here, here.Interrupt, nil
	}
	if _, err := h.store.Thread(ctx, key); err != nil {
		return nil, nil, err
	}
	elsewhere, err := h.chat.Follow(ctx, key)
	return elsewhere, func() { _ = h.chat.Interrupt(context.WithoutCancel(ctx), key) }, err // nobody is there to receive an error
}
