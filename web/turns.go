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
)

// textChat answers by text; *chat.Coordinator does.
type textChat interface {
	textTurns
	textSessions
}

// textTurns is what the routes about a thread's turns need.
type textTurns interface {
	Turn(ctx context.Context, req chat.TurnRequest) (*chat.Turn, error)
	Running(key persistence.Key) *chat.Turn
	Busy(ctx context.Context, key persistence.Key) (bool, error)
	Interrupt(ctx context.Context, key persistence.Key) error
	Decide(ctx context.Context, key persistence.Key, d chat.Decision) error
	Count() int
}

// maxMessageBody is the body of a request with a user's text, whose own limit is
// chat.MaxText; JSON may need six bytes for one.
const maxMessageBody = maxBody

// interruptWait is how long an interruption waits for what was said to be saved.
const interruptWait = 5 * time.Second

// texts is one text or a list of them; an empty text alone counts as none.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		*t = nil
		if one != nil && *one != "" {
			*t = texts{*one}
		}
		return nil
	}
	if json.Unmarshal(data, (*[]string)(t)) != nil {
		return badRequest("invalid_value", "instructions", "instructions must be a text or a list of texts.")
	}
	return nil
}

// turnAnswer is a turn that has ended, for clients that do not want a stream.
type turnAnswer struct {
	TurnID string `json:"turn_id"`
	// Message is the answer, UserMessage what it answers.
	Message      persistence.Message  `json:"message"`
	UserMessage  *persistence.Message `json:"user_message,omitempty"`
	FinishReason chat.FinishReason    `json:"finish_reason"`
}

// saidAnswer is a text that went into a live call, which answers it by voice.
type saidAnswer struct {
	CallID      string              `json:"call_id"`
	UserMessage persistence.Message `json:"user_message"`
}

// postMessage takes what a user types. In a live call it is said there, else it
// begins a text turn.
func (s *Server) postMessage(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	var body struct {
		Content      string `json:"content"`
		Instructions texts  `json:"instructions"`
	}
	if err := readJSONOf(c, &body, maxMessageBody, false); err != nil {
		return err
	}
	if strings.TrimSpace(body.Content) == "" {
		return badRequest("empty_content", "content", "content is empty.")
	}
	said, err := s.sayInCall(c, key, body.Content, body.Instructions)
	if said || err != nil {
		return orThread(err)
	}
	begin := func() (*chat.Turn, error) {
		t, err := s.chat.Turn(c.Request().Context(), chat.TurnRequest{Key: key, Text: body.Content, Instructions: body.Instructions})
		return t, orThread(err)
	}
	if isStream(c) {
		return s.streamTurn(c, key, -1, begin)
	}
	t, err := begin()
	if err != nil {
		return err
	}
	return s.answerTurn(c, t)
}

// sayInCall puts a text into the thread's live call and answers the request. It
// reports false when there is no such call.
func (s *Server) sayInCall(c echo.Context, key persistence.Key, text string, instructions []string) (bool, error) {
	ctx := c.Request().Context()
	callID, ok := s.calls.Live(key.Owner, key.Thread)
	if !ok {
		_, err := s.store.LiveCall(ctx, key)
		if errors.Is(err, persistence.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if callID, ok = s.calls.Live(key.Owner, key.Thread); !ok { // it may have begun just now
			return false, errCallElsewhere
		}
	}
	if len(instructions) > 0 {
		return false, badRequest("invalid_value", "instructions", "The thread has a live call, which has its own instructions: send the text alone.")
	}
	m, err := s.calls.Say(ctx, key.Owner, key.Thread, text)
	if e, isBridge := errors.AsType[*bridge.Error](err); isBridge && e.Code == bridge.CodeNoCall {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	answer := saidAnswer{CallID: callID, UserMessage: m}
	if isStream(c) {
		s.streamSaid(c, answer)
		return true, nil
	}
	return true, c.JSON(http.StatusAccepted, answer)
}

// refuseInCall returns an error when the thread has a live call, in any process:
// its conversation is the call's, and an answer beside it would be another one.
func (s *Server) refuseInCall(ctx context.Context, key persistence.Key) error {
	if _, ok := s.calls.Live(key.Owner, key.Thread); ok {
		return errCallLive
	}
	_, err := s.store.LiveCall(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errCallLive
}

var errCallLive = &apiError{
	Status: http.StatusConflict, Code: string(bridge.CodeCallActive),
	Message: "The thread has a live call. Say it there, or hang up first.",
}

var errCallElsewhere = &apiError{
	Status: http.StatusConflict, Code: string(bridge.CodeCallActive), RetryAfter: retryFull,
	Message: "The thread has a live call that begins or ends just now, or that another process of this server holds. Try again, or hang up first.",
}

// answerTurn waits for the end of a turn and tells it.
func (s *Server) answerTurn(c echo.Context, t *chat.Turn) error {
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

// waitLong takes the time limit off an answer that a model is still making.
func waitLong(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Time{})
}

// answerSoon puts it on again, for the client to read.
func answerSoon(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(answerTimeout))
}

// interruptTurn stops the thread's turn, also what its live call does. It waits until
// a text turn is saved, so that the next message is not refused. With nothing to stop
// it says so.
func (s *Server) interruptTurn(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	interrupted, err := s.calls.Interrupt(ctx, key)
	if err != nil {
		return err
	}
	turn := s.chat.Running(key)
	if turn != nil && hasEnded(turn) {
		turn = nil
	}
	err = s.chat.Interrupt(ctx, key)
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
