package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// textSessions serves the routes about text sessions.
type textSessions struct{ *api }

func (h textSessions) routes(r router) {
	r.explain, r.noThread = orSession, errNoSession // a session id is a thread id
	route(r, "POST /text/session", h.create, r.text, r.thread)
	route(r, "GET /text/session/:id", h.read)
	route(r.passing(), "DELETE /text/session/:id", h.delete)
	route(r.passing(), "POST /text/session/:id/message", h.postMessage, r.text)
	route(r.passing(), "POST /text/session/:id/instructions", h.postInstructions, r.text)
	route(r, "POST /text/session/:id/tool-output", h.postToolOutput)
}

// Limits on requests about text sessions.
const (
	maxName        = 200 // bytes of a provider's or a model's name
	maxToolOutputs = 128 // per request
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

type newTextSession struct {
	Body struct {
		threadAssistant

		Provider     string               `json:"provider"`
		Model        string               `json:"model"`
		Instructions texts                `json:"instructions"`
		Tools        []toolkit.Definition `json:"tools"`
		Defaults     json.RawMessage      `json:"defaults"`
	} `body:"512 KiB,optional"`
}

func (h textSessions) create(
	ctx context.Context, who caller, in newTextSession,
) (made reply[sessionAnswer], err error) {
	body := &in.Body
	for param, name := range map[string]string{"provider": body.Provider, "model": body.Model} {
		if name != "" && !validName(name) {
			return made, problem.Invalid(param, "%s must be a name of at most %d characters.", param, maxName)
		}
	}
	if !h.Limits.MayUse(body.Provider, body.Model) {
		return made, problem.Forbidden("model_not_allowed", "This provider and model may not be used here.")
	}
	if string(body.Defaults) == "null" {
		body.Defaults = nil
	}
	for i := range body.Tools {
		if p := body.Tools[i].Parameters; len(p) == 0 || string(p) == "null" {
			body.Tools[i].Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	}
	chosen, err := h.checkChoice(ctx, who.Owner, body.threadAssistant)
	if err != nil {
		return made, err
	}
	session, err := h.Chat.CreateSession(ctx, who.Owner, chat.SessionRequest{
		Provider: body.Provider, Model: body.Model, Instructions: body.Instructions, Tools: body.Tools,
		Defaults:  body.Defaults,
		Assistant: chosen, Variables: body.Variables,
	})
	return created("/text/session/"+session.ID, sessionAnswer{Success: true, Session: &session}), err
}

// validName reports whether s can be the name of a provider or a model.
func validName(s string) bool {
	return len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (h textSessions) read(ctx context.Context, _ caller, in oneThread) (sessionAnswer, error) {
	session, err := h.Chat.Session(ctx, in.Key)
	return sessionAnswer{Success: true, Session: &session}, err
}

type sessionDeleted struct {
	Success bool `json:"success"`
}

func (h textSessions) delete(ctx context.Context, _ caller, in oneThread) (sessionDeleted, error) {
	return sessionDeleted{true}, h.removeThread(ctx, in.Key)
}

type sessionMessage struct {
	Key  thread.Key
	Body struct {
		Content        string `json:"content"`
		Instructions   texts  `json:"instructions"`
		IdempotencyKey string `json:"idempotency_key"`
	} `body:"1024 KiB"`
}

// postMessage appends instructions and a message, and answers.
func (h textSessions) postMessage(ctx context.Context, who caller, in sessionMessage) (sessionAnswer, error) {
	if strings.TrimSpace(in.Body.Content) == "" {
		return sessionAnswer{}, problem.BadRequest("empty_content", "content", "content is empty.")
	}
	req := chat.TurnRequest{Key: in.Key, Session: true, Text: in.Body.Content, Instructions: in.Body.Instructions}
	return h.answer(ctx, who, req, in.Body.IdempotencyKey)
}

type sessionInstructions struct {
	Key  thread.Key
	Body struct {
		Instructions   texts  `json:"instructions"`
		IdempotencyKey string `json:"idempotency_key"`
	} `body:"1024 KiB" bare:"[\""`
}

// postInstructions appends instructions, and answers.
func (h textSessions) postInstructions(ctx context.Context, who caller, in sessionInstructions) (sessionAnswer, error) {
	if len(in.Body.Instructions) == 0 {
		return sessionAnswer{}, problem.BadRequest("empty_content", "instructions", "instructions are empty.")
	}
	req := chat.TurnRequest{Key: in.Key, Session: true, Instructions: in.Body.Instructions}
	return h.answer(ctx, who, req, in.Body.IdempotencyKey)
}

// answer runs a turn of a session and returns its result. The form of the answer has no place for a live call, which
// answers by voice.
func (h textSessions) answer(ctx context.Context, who caller, req chat.TurnRequest, key string) (sessionAnswer, error) {
	once, err := idempotencyKey(who.c, key)
	if err != nil {
		return sessionAnswer{}, err
	}
	req.User = who.Name
	answer, err := h.Chat.Say(ctx, req, chat.Mode{ByText: true, Once: once})
	input.Release(who.c)
	if err != nil {
		return sessionAnswer{}, err
	}
	waitLong(who.c)
	ended, err := answer.Reply.Wait(ctx)
	answerSoon(who.c)
	if err != nil {
		return sessionAnswer{}, fmt.Errorf("wait for the answer: %w", err)
	}
	result, session, err := h.Chat.SessionAnswer(ctx, req.Key, ended)
	return sessionAnswer{Success: true, Result: &result, Session: &session}, err
}

// toolOutput is the result of a call that the client ran.
type toolOutput struct {
	CallID string          `json:"callId"`
	Output json.RawMessage `json:"output"`
	Error  string          `json:"error"`
}

type sessionOutputs struct {
	Key  thread.Key
	Body struct {
		ToolOutputs []toolOutput `json:"toolOutputs"`
	} `body:"1024 KiB" bare:"["`
}

// postToolOutput appends the results of calls that the client ran, all of them or none. It
// generates nothing.
func (h textSessions) postToolOutput(
	ctx context.Context, _ caller, in sessionOutputs,
) (answer sessionAnswer, err error) {
	given := in.Body.ToolOutputs
	if n := len(given); n == 0 || n > maxToolOutputs {
		return answer, problem.Invalid("toolOutputs", "toolOutputs must be a list of 1 to %d outputs.", maxToolOutputs)
	}
	outputs := make([]chat.ToolResult, 0, len(given))
	for i, o := range given {
		param := fmt.Sprintf("toolOutputs[%d]", i)
		if o.CallID == "" {
			return answer, problem.BadRequest("missing_value", param+".callId", param+".callId is missing.")
		}
		if len(o.Output) == 0 && o.Error == "" {
			return answer, problem.BadRequest("missing_value", param+".output", param+".output is missing.")
		}
		outputs = append(outputs, chat.ToolResult{CallID: o.CallID, Output: string(o.Output), Error: o.Error})
	}
	session, err := h.Chat.SessionToolOutput(ctx, in.Key, outputs)
	return sessionAnswer{Success: true, Session: &session}, err
}
