package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// textSessionRoutes serves the routes about text sessions.
type textSessionRoutes struct {
	chat       textSessions
	remove     *remover
	assistants *assistantFinder
	limits     access.Limits
}

func (h *textSessionRoutes) routes(r router) {
	r.POST("/text/session", h.create, r.user, r.text, r.thread)
	r.GET("/text/session/:id", onSession(h.read), r.user)
	r.DELETE("/text/session/:id", onSession(h.delete), r.user)
	r.POST("/text/session/:id/message", onSession(h.postMessage), r.user, r.text)
	r.POST("/text/session/:id/instructions", onSession(h.postInstructions), r.user, r.text)
	r.POST("/text/session/:id/tool-output", onSession(h.postToolOutput), r.user)
}

// textSessions is what the routes about text sessions need.
type textSessions interface {
	CreateSession(ctx context.Context, owner string, req chat.SessionRequest) (chat.Session, error)
	Session(ctx context.Context, key thread.Key) (chat.Session, error)
	DeleteSession(ctx context.Context, key thread.Key) error
	Say(ctx context.Context, req chat.TurnRequest, mode chat.Mode) (chat.Answer, error)
	SessionAnswer(ctx context.Context, key thread.Key, r chat.Result) (chat.SessionResult, chat.Session, error)
	SessionToolOutput(ctx context.Context, key thread.Key, outputs []chat.ToolResult) (chat.Session, error)
}

// Limits on requests about text sessions.
const (
	maxSessionBody = 512 << 10 // bytes of tools, instructions and defaults
	maxName        = 200       // bytes of a provider's or a model's name
	maxToolOutputs = 128       // per request
)

// sessionAnswer is the answer of the routes about text sessions.
type sessionAnswer struct {
	Success bool                `json:"success"`
	Result  *chat.SessionResult `json:"result,omitempty"`
	Session *chat.Session       `json:"session,omitempty"`
}

var errNoSession = problem.NotFound("session_not_found", "There is no such session.")

// orSession replaces a not-found error by one about the session.
func orSession(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoSession
	}
	return err
}

// onSession is onThread: a session id is a thread id.
func onSession(serve func(echo.Context, thread.Key) error) echo.HandlerFunc {
	return withKey(serve, errNoSession)
}

func (h *textSessionRoutes) create(c echo.Context) error {
	var body struct {
		threadAssistant

		Provider     string               `json:"provider"`
		Model        string               `json:"model"`
		Instructions texts                `json:"instructions"`
		Tools        []toolkit.Definition `json:"tools"`
		Defaults     json.RawMessage      `json:"defaults"`
	}
	if err := input.JSONOf(c, &body, maxSessionBody, true); err != nil {
		return err
	}
	for param, name := range map[string]string{"provider": body.Provider, "model": body.Model} {
		if name != "" && !validName(name) {
			return problem.BadRequest("invalid_value", param, fmt.Sprintf("%s must be a name of at most %d characters.", param, maxName))
		}
	}
	if !h.limits.MayUse(body.Provider, body.Model) {
		return problem.Forbidden("model_not_allowed", "This provider and model may not be used here.")
	}
	if string(body.Defaults) == "null" {
		body.Defaults = nil
	}
	for i := range body.Tools {
		if p := body.Tools[i].Parameters; len(p) == 0 || string(p) == "null" {
			body.Tools[i].Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	}
	chosen, err := h.assistants.check(c.Request().Context(), identity(c).Owner, body.threadAssistant)
	if err != nil {
		return err
	}
	session, err := h.chat.CreateSession(c.Request().Context(), identity(c).Owner, chat.SessionRequest{
		Provider: body.Provider, Model: body.Model, Instructions: body.Instructions, Tools: body.Tools, Defaults: body.Defaults,
		Assistant: chosen, Variables: body.Variables,
	})
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/text/session/"+session.ID)
	return c.JSON(http.StatusCreated, sessionAnswer{Success: true, Session: &session})
}

// validName reports whether s can be the name of a provider or a model.
func validName(s string) bool {
	return len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (h *textSessionRoutes) read(c echo.Context, key thread.Key) error {
	session, err := h.chat.Session(c.Request().Context(), key)
	if err != nil {
		return orSession(err)
	}
	return c.JSON(http.StatusOK, sessionAnswer{Success: true, Session: &session})
}

func (h *textSessionRoutes) delete(c echo.Context, key thread.Key) error {
	if err := h.remove.thread(c.Request().Context(), key); err != nil {
		return orSession(err)
	}
	return c.JSON(http.StatusOK, sessionAnswer{Success: true})
}

// postMessage appends instructions and a message, and answers.
func (h *textSessionRoutes) postMessage(c echo.Context, key thread.Key) error {
	var body struct {
		Content        string `json:"content"`
		Instructions   texts  `json:"instructions"`
		IdempotencyKey string `json:"idempotency_key"`
	}
	if err := input.JSONOf(c, &body, maxMessageBody, false); err != nil {
		return err
	}
	if strings.TrimSpace(body.Content) == "" {
		return problem.BadRequest("empty_content", "content", "content is empty.")
	}
	once, err := idempotencyKey(c, body.IdempotencyKey)
	if err != nil {
		return err
	}
	return h.answer(c, chat.TurnRequest{Key: key, Session: true, Text: body.Content, Instructions: body.Instructions}, once)
}

// postInstructions appends instructions, and answers. The body may be a bare text or list of texts.
func (h *textSessionRoutes) postInstructions(c echo.Context, key thread.Key) error {
	var body struct {
		Instructions   texts  `json:"instructions"`
		IdempotencyKey string `json:"idempotency_key"`
	}
	if err := readBare(c, maxMessageBody, `["`, &body, &body.Instructions); err != nil {
		return err
	}
	if len(body.Instructions) == 0 {
		return problem.BadRequest("empty_content", "instructions", "instructions are empty.")
	}
	once, err := idempotencyKey(c, body.IdempotencyKey)
	if err != nil {
		return err
	}
	return h.answer(c, chat.TurnRequest{Key: key, Session: true, Instructions: body.Instructions}, once)
}

// readBare reads a JSON object into body or, if the value begins with one of the given characters,
// the bare value into field.
func readBare(c echo.Context, limit int64, begins string, body, field any) error {
	raw, err := input.JSONValue(c, limit)
	if err != nil {
		return err
	}
	if !strings.ContainsRune(begins, rune(raw[0])) {
		return input.Object(raw, body)
	}
	return input.Value(raw, field)
}

// answer runs a turn of a session and returns its result. The form of the answer has no place for a live call, which answers
// by voice.
func (h *textSessionRoutes) answer(c echo.Context, req chat.TurnRequest, once string) error {
	ctx := c.Request().Context()
	req.User = identity(c).Name
	answer, err := h.chat.Say(ctx, req, chat.Mode{ByText: true, Once: once})
	input.Release(c)
	if err != nil {
		return orSession(err)
	}
	waitLong(c)
	ended, err := answer.Reply.Wait(ctx)
	answerSoon(c)
	if err != nil {
		return fmt.Errorf("wait for the answer: %w", err)
	}
	result, session, err := h.chat.SessionAnswer(ctx, req.Key, ended)
	if err != nil {
		return orSession(err)
	}
	return c.JSON(http.StatusOK, sessionAnswer{Success: true, Result: &result, Session: &session})
}

// toolOutput is the result of a call that the client ran.
type toolOutput struct {
	CallID string          `json:"callId"`
	Output json.RawMessage `json:"output"`
	Error  string          `json:"error"`
}

// postToolOutput appends the results of calls that the client ran, all of them or none. It
// generates nothing.
func (h *textSessionRoutes) postToolOutput(c echo.Context, key thread.Key) error {
	var body struct {
		ToolOutputs []toolOutput `json:"toolOutputs"`
	}
	if err := readBare(c, input.MaxBody, "[", &body, &body.ToolOutputs); err != nil {
		return err
	}
	if n := len(body.ToolOutputs); n == 0 || n > maxToolOutputs {
		return problem.BadRequest("invalid_value", "toolOutputs", fmt.Sprintf("toolOutputs must be a list of 1 to %d outputs.", maxToolOutputs))
	}
	outputs := make([]chat.ToolResult, 0, len(body.ToolOutputs))
	for i, o := range body.ToolOutputs {
		param := fmt.Sprintf("toolOutputs[%d]", i)
		if o.CallID == "" {
			return problem.BadRequest("missing_value", param+".callId", param+".callId is missing.")
		}
		if len(o.Output) == 0 && o.Error == "" {
			return problem.BadRequest("missing_value", param+".output", param+".output is missing.")
		}
		outputs = append(outputs, chat.ToolResult{CallID: o.CallID, Output: string(o.Output), Error: o.Error})
	}
	session, err := h.chat.SessionToolOutput(c.Request().Context(), key, outputs)
	if err != nil {
		return orSession(err)
	}
	return c.JSON(http.StatusOK, sessionAnswer{Success: true, Session: &session})
}
