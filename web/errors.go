package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/web/problem"
)

// statusClientClosed is logged if the client went away before there was an answer. Nobody receives
// it.
const statusClientClosed = 499

// classify turns any error into one for the client. It is the only place that maps failures to
// statuses.
func classify(err error) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return classifyBridge(e)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem.TooLarge("", "The request body is too large.")
	}
	if e := classifyChat(err); e != nil {
		return e
	}
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return problem.NotFound("not_found", "This does not exist, or it is not yours.")
	case errors.Is(err, persistence.ErrInvalid):
		return problem.BadRequest("invalid_value", "", persistence.Reason(err)+".")
	case errors.Is(err, persistence.ErrConflict):
		return problem.Conflict("conflict", "", "This conflicts with what is already saved.")
	case errors.Is(err, persistence.ErrClosed):
		return problem.ErrShuttingDown
	case errors.Is(err, context.Canceled):
		return &problem.Error{
			Status: statusClientClosed, Code: "client_closed", Message: "The client closed the request.",
		}
	case errors.Is(err, persistence.ErrUnavailable), errors.Is(err, persistence.ErrFenced):
		return storageUnavailable("The server cannot reach its database. Try again in a moment.")
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return classifyEcho(e)
	}
	return errInternal
}

var errInternal = &problem.Error{
	Status: http.StatusInternalServerError, Code: "internal_error",
	Message: "Something went wrong on the server. Its log has the details.",
}

func storageUnavailable(message string) *problem.Error {
	return &problem.Error{
		Status: http.StatusServiceUnavailable, Code: string(bridge.CodeStorageFull), Message: message,
		RetryAfter: problem.ErrShuttingDown.RetryAfter,
	}
}

func classifyBridge(e *bridge.Error) *problem.Error {
	out := &problem.Error{Code: string(e.Code), Message: e.Message, Param: e.Param}
	switch e.Code {
	case bridge.CodeBadSDP, bridge.CodeNoOpus, bridge.CodeBadSession, bridge.CodeNoUpstream, bridge.CodeBadText:
		out.Status = http.StatusBadRequest
	case bridge.CodeCallActive, bridge.CodeNoCall, bridge.CodeNotRecorded:
		out.Status = http.StatusConflict
	case bridge.CodeTooManyCalls:
		return problem.TooMany(out.Code, e.Message, problem.RetryFull)
	case bridge.CodeBudget, bridge.CodeTooManySidebands:
		out.Status = http.StatusTooManyRequests
	case bridge.CodeShuttingDown, bridge.CodeStorageFull, bridge.CodeUnreachable:
		out.Status, out.RetryAfter = http.StatusServiceUnavailable, problem.ErrShuttingDown.RetryAfter
	case bridge.CodeUpstreamRefused:
		out.Status, out.RetryAfter = http.StatusBadGateway, e.RetryAfter
		if e.UpstreamCode != "" {
			out.Code = e.UpstreamCode
		}
		out.Message = realtime.MaskKeys(e.Message)
	case bridge.CodeUpstreamUnreachable:
		out.Status = http.StatusBadGateway
		out.Message = realtime.MaskKeys(e.Message)
	default:
		out.Status = http.StatusInternalServerError
	}
	return out
}

// classifyChat classifies failures of text turns; nil for all others.
func classifyChat(err error) *problem.Error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return classifyProvider(e)
	}
	message, param := err.Error(), ""
	if e, ok := errors.AsType[*chat.CallError](err); ok {
		message, param = fmt.Sprintf("The tool call %q: %v.", e.CallID, e.Err), "callId"
	}
	switch {
	case errors.Is(err, chat.ErrBusy), errors.Is(err, persistence.ErrBusy):
		return problem.Conflict("agent_busy", "",
			"The assistant is answering on this thread. Wait, interrupt it, or use the queue.")
	case errors.Is(err, chat.ErrCallChanging):
		return &problem.Error{
			Status: http.StatusConflict, Code: string(bridge.CodeCallActive), RetryAfter: problem.RetryFull,
			Message: "The thread has a live call that is just starting or ending. Try again, or hang up first.",
		}
	case errors.Is(err, chat.ErrInCall):
		return problem.Conflict(string(bridge.CodeCallActive), "",
			"The thread has a live call. Say it there, or hang up first.")
	case errors.Is(err, chat.ErrCallInstructions):
		return problem.Invalid("instructions",
			"The thread has a live call, which has its own instructions: send the text alone.")
	case errors.Is(err, chat.ErrKeyUsed):
		return errKeyUsed
	case errors.Is(err, chat.ErrTooMany):
		return problem.TooMany("too_many_turns",
			"You have reached your limit of answers in progress. Wait for one, or use the queue.", problem.RetryFull)
	case errors.Is(err, chat.ErrClosed):
		return problem.ErrShuttingDown
	case errors.Is(err, chat.ErrEmpty):
		return problem.BadRequest("empty_content", "", "The message is empty.")
	case errors.Is(err, chat.ErrNoMessage):
		return problem.NotFound("message_not_found", "There is no such message on this thread since its last reset.")
	case errors.Is(err, chat.ErrTooLarge):
		return problem.TooLarge(param, plainWords(message, chat.ErrTooLarge))
	case errors.Is(err, chat.ErrProvider):
		return problem.BadRequest("invalid_value", "provider", plainWords(message, chat.ErrProvider))
	case errors.Is(err, chat.ErrTools):
		return problem.BadRequest("invalid_value", "tools", plainWords(message, chat.ErrTools))
	case errors.Is(err, chat.ErrImages):
		return problem.BadRequest("invalid_value", "messages", plainWords(message, chat.ErrImages))
	case errors.Is(err, persistence.ErrQuota):
		return errImageQuota
	case errors.Is(err, chat.ErrUnknownCall):
		return problem.BadRequest("unknown_call", param, message)
	case errors.Is(err, chat.ErrAnswered):
		return problem.Conflict("already_answered", param, message)
	case errors.Is(err, chat.ErrNotAsked):
		return problem.Conflict("approval_not_pending", "nonce", message)
	case errors.Is(err, chat.ErrReplayGone):
		return &problem.Error{
			Status: http.StatusGone, Code: "replay_gone",
			Message: "These events of the answer are no longer kept. Read the thread's messages instead.",
		}
	}
	return nil
}

// classifyProvider reports that a language model failed. The codes are ours: a provider's 401 is
// not the client's.
func classifyProvider(e *llm.Error) *problem.Error {
	out := &problem.Error{
		Status: http.StatusBadGateway, Code: "provider_" + string(e.Kind), Message: realtime.MaskKeys(e.Message),
	}
	switch e.Kind {
	case llm.KindRate:
		out.Status, out.RetryAfter = http.StatusTooManyRequests, cmp.Or(e.RetryAfter, problem.RetryFull)
	case llm.KindOverloaded:
		out.Status, out.RetryAfter = http.StatusServiceUnavailable, cmp.Or(e.RetryAfter, problem.RetryFull)
	case llm.KindTimeout:
		out.Status = http.StatusGatewayTimeout
	case llm.KindTooLong:
		out.Status = http.StatusRequestEntityTooLarge
	}
	return out
}

// plainWords removes the wrapping before a sentinel's own text.
func plainWords(text string, sentinel error) string {
	if i := strings.Index(text, sentinel.Error()); i >= 0 {
		return strings.TrimSuffix(text[i:], ".") + "."
	}
	return text
}

func classifyEcho(e *echo.HTTPError) *problem.Error {
	switch e.Code {
	case http.StatusNotFound:
		return problem.NotFound("not_found", "There is no such route.")
	case http.StatusMethodNotAllowed:
		return &problem.Error{
			Status: e.Code, Code: "method_not_allowed", Message: "This route does not accept this method.",
		}
	default:
		return &problem.Error{Status: e.Code, Code: "http_" + strconv.Itoa(e.Code), Message: http.StatusText(e.Code)}
	}
}

var errKeyUsed = problem.Conflict("idempotency_key_used", "idempotency_key",
	"The idempotency key belongs to another message of this thread.")

var errImageQuota = problem.TooLarge("image",
	"You have reached your limit for images. Delete threads with images first.")

// errorType is the "type" of an OpenAI-shaped error.
func errorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusBadGateway:
		return "upstream_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}

type openAIErrorBody struct {
	Error openAIError `json:"error"`
}

type openAIError struct {
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

type plainErrorBody struct {
	Error   string `json:"error"` // a code
	Message string `json:"message"`
	// Param is the part of the request at fault.
	Param string `json:"param,omitempty"`
	// Success is false on text sessions, and missing on others.
	Success *bool `json:"success,omitempty"`
}

// errorWriter answers failed requests.
type errorWriter struct{ log *slog.Logger }

// write is echo's error handler. Routes under /v1 answer in OpenAI's form, all others in our own.
func (w errorWriter) write(err error, c echo.Context) {
	e := classify(err)
	if e.Status >= http.StatusInternalServerError && e.Code != problem.ErrShuttingDown.Code { // a stop is no failure
		w.log.Error("request failed", "error", realtime.MaskKeys(err.Error()), "status", e.Status, "code", e.Code,
			"path", shortPath(c.Request().URL.Path), "request_id", requestID(c))
	}
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	if e.RetryAfter > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set(echo.HeaderWWWAuthenticate, `Bearer realm="voicebridge"`)
	}
	var body any = plainErrorBody{Error: e.Code, Message: e.Message, Param: e.Param}
	if strings.HasPrefix(c.Request().URL.Path+"/", "/v1/") {
		o := openAIError{Type: errorType(e.Status), Code: e.Code, Message: e.Message}
		if e.Param != "" {
			o.Param = &e.Param
		}
		body = openAIErrorBody{Error: o}
	}
	if strings.HasPrefix(c.Request().URL.Path, "/text/") {
		body = plainErrorBody{Error: e.Code, Message: e.Message, Param: e.Param, Success: new(false)}
	}
	if err := c.JSON(e.Status, body); err != nil {
		w.log.Log(c.Request().Context(), slog.LevelDebug, "error not delivered", "error", err,
			"request_id", requestID(c))
	}
}
