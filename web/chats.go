package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// chats answers the requests of useChat.
type chats struct {
	chat    chatTurns
	store   messageReader
	live    *liveCall
	streams *streams
	// stopWithReader makes a turn end when its client goes away.
	stopWithReader bool
}

// chatTurns is what useChat needs of text turns.
type chatTurns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	Running(key thread.Key) *chat.Turn
	Follow(ctx context.Context, key thread.Key) (*chat.Followed, error)
	Made(ctx context.Context, key thread.Key, messageID string) (*chat.Followed, error)
	Interrupt(ctx context.Context, key thread.Key) error
	Yield(ctx context.Context, key thread.Key)
	Decide(ctx context.Context, key thread.Key, d chat.Decision) error
	Asked(ctx context.Context, key thread.Key, ids ...string) (thread.Message, error)
	KeepImages(ctx context.Context, key thread.Key, images []chat.Image) (ids []string, err error)
}

// post answers useChat, always with a stream. When the client goes away, as by its stop or by a reload, the turn goes on
// by default: it can be resumed, and gives way to the next message if nobody has.
func (h *chats) post(c echo.Context, key thread.Key, body *useChat, instructions []string) error {
	if len(body.Messages) == 0 {
		return problem.BadRequest("empty_content", "messages", "messages is empty.")
	}
	inStates, err := sdkAsksInStates(c)
	if err != nil {
		return err
	}
	last := &body.Messages[len(body.Messages)-1]
	if decided := last.decisions(key.Owner); last.Role == string(thread.RoleAssistant) && body.Trigger != triggerRegenerate {
		if len(decided) == 0 {
			return problem.BadRequest("invalid_value", "messages", "The last message must be from the user, or hold answers to approvals.")
		}
		return h.decide(c, key, last, decided)
	}
	req := chat.TurnRequest{Key: key, Instructions: instructions}
	if last.Role != string(thread.RoleAssistant) {
		req.Text, req.Images, req.Parts = last.userInput()
	}
	if done, err := h.inCall(c, key, body, req); done || err != nil {
		return err
	}
	var turn *chat.Turn
	begin := func() (t anyTurn, err error) {
		ctx := c.Request().Context()
		turn, err = h.begin(ctx, key, body, req)
		if errors.Is(err, chat.ErrBusy) && h.stops(ctx, key) {
			turn, err = h.begin(ctx, key, body, req)
		}
		req, body.Messages = chat.TurnRequest{}, nil // what they hold is saved, and may be large
		input.Release(c)
		return turn, orThread(err)
	}
	err = h.streams.stream(c, key, -1, begin, streamForm{inStates: inStates})
	if turn != nil && h.stopWithReader && c.Request().Context().Err() != nil {
		turn.Interrupt()
	}
	return err
}

// stopGrace is how long a message waits for the end of the turn that its client has just stopped.
const stopGrace = 3 * time.Second

// stops waits a moment for the end of the thread's turn, and reports whether it came: a client that stops one turn, which
// only cuts its stream, and begins another does not wait for the first, whose end is noticed and saved a little later.
func (h *chats) stops(ctx context.Context, key thread.Key) bool {
	grace, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	running, _, err := h.running(grace, key, "")
	if err == nil {
		h.chat.Yield(grace, key)
		_, err = running.Wait(grace)
	}
	return err == nil || errors.Is(err, chat.ErrIdle)
}

// inCall puts what useChat sends into the thread's live call and answers the request. It returns
// false if there is no such call. A call's answers cannot be regenerated. What a client sends again is said once, also if
// the first was said in a call that is over, or answered by text.
func (h *chats) inCall(c echo.Context, key thread.Key, body *useChat, req chat.TurnRequest) (bool, error) {
	ctx := c.Request().Context()
	if body.Trigger == triggerRegenerate {
		return false, orThread(h.live.refuse(ctx, key))
	}
	id := saidID(body, req)
	if said, err := h.store.Message(ctx, key, id); err == nil && body.MessageID == "" {
		h.streams.intoCall(c, intoCallAnswer{CallID: said.Metadata.CallID, UserMessage: said})
		return true, nil
	}
	images := func() ([]string, error) {
		if _, edited, err := h.askedBefore(ctx, key, body, req); err == nil && !edited {
			return nil, errCallLive
		}
		return h.chat.KeepImages(ctx, key, req.Images)
	}
	answer, err := h.live.say(ctx, key, id, req.Text, images, req.Instructions)
	if err != nil || answer == nil {
		return false, orThread(err)
	}
	h.streams.intoCall(c, *answer)
	return true, nil
}

// saidID returns the id that what useChat sends gets in a call, where it cannot have the client's; empty for a new one.
func saidID(body *useChat, req chat.TurnRequest) string {
	sent := body.Messages[len(body.Messages)-1].ID
	if sent == "" {
		return ""
	}
	return messageID(req.Key.Thread, fmt.Sprintf("%s %q %q", sent, req.Text, req.Images))
}

// begin begins the turn that useChat asks for. What the client shows last counts: a message that is already in the
// thread, as in a retried request, is answered again; a new one is said, even to regenerate, which is how a client
// retries what was refused. Where the user went back, the client has cut off what came after, and so it is left
// out of the model's context here, though the thread keeps it. A message that the user has edited, which keeps its id
// there, is a new one here.
func (h *chats) begin(ctx context.Context, key thread.Key, body *useChat, req chat.TurnRequest) (*chat.Turn, error) {
	id := body.Messages[len(body.Messages)-1].ID
	asked, edited, err := h.askedBefore(ctx, key, body, req)
	if err == nil && !edited {
		again := chat.TurnRequest{Key: key, Saved: true, MessageID: asked.ID, Instructions: req.Instructions}
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
	if input.ValidID(id, thread.MaxIDBytes) {
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
func (h *chats) askedBefore(ctx context.Context, key thread.Key, body *useChat, req chat.TurnRequest) (asked thread.Message, edited bool, err error) {
	again, last := body.Trigger == triggerRegenerate, body.Messages[len(body.Messages)-1].ID
	says := strings.TrimSpace(req.Text) != "" || len(req.Images) > 0
	if input.ValidID(last, thread.MaxIDBytes) {
		asked, err = h.chat.Asked(ctx, key, last, saidID(body, req))
		if !errors.Is(err, chat.ErrNoMessage) {
			return asked, err == nil && says && !saysTheSame(asked, req), err
		}
	}
	if again && input.ValidID(body.MessageID, thread.MaxIDBytes) {
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
func (h *chats) decide(c echo.Context, key thread.Key, last *uiMessage, decided []chat.Decision) error {
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
		switch {
		case err == nil, errors.Is(err, chat.ErrNotAsked) && h.decided(ctx, key, last.ID, d):
			answered[d.ToolCallID] = true
		case !errors.Is(err, chat.ErrNotAsked):
			return orThread(err)
		}
	}
	if len(answered) == 0 {
		return notAsked
	}
	err = h.streams.stream(c, key, -1, func() (anyTurn, error) { return t, nil }, streamForm{inStates: true, answered: answered, open: last.open()})
	if h.stopWithReader && ctx.Err() != nil {
		stop()
	}
	return err
}

// decided reports whether the saved message has a decision already: it is sent again, or the user has decided elsewhere,
// too.
func (h *chats) decided(ctx context.Context, key thread.Key, messageID string, d chat.Decision) bool {
	m, err := h.store.Message(ctx, key, messageID)
	return err == nil && slices.ContainsFunc(m.Parts, func(p thread.Part) bool {
		saved, ok := toolkit.DecisionOf(p.Raw)
		return ok && p.ToolCallID == d.ToolCallID && saved == toolkit.Decision{ID: d.Nonce, Approved: d.Approved}
	})
}

// running finds the thread's turn, in any process, and how to stop it; chat.ErrIdle if there is none. With a message's id
// it finds the turn that makes the message, or has made it.
func (h *chats) running(ctx context.Context, key thread.Key, messageID string) (t anyTurn, stop func(), err error) {
	here := h.chat.Running(key)
	// An earlier turn that ended here does not hide the one that another process runs.
	if here != nil && (messageID == "" && !here.Ended() || messageID != "" && here.Begins(ctx) && here.MessageID() == messageID) {
		return here, here.Interrupt, nil
	}
	if _, err := h.store.Thread(ctx, key); err != nil {
		return nil, nil, err
	}
	elsewhere, err := h.chat.Follow(ctx, key)
	if messageID != "" && (errors.Is(err, chat.ErrIdle) || err == nil && elsewhere.MessageID() != messageID) {
		made, err := h.chat.Made(ctx, key, messageID)
		return made, func() {}, err
	}
	return elsewhere, func() { _ = h.chat.Interrupt(context.WithoutCancel(ctx), key) }, err // nobody is there to receive an error
}
