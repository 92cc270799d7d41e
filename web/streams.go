package web

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/uistream"
)

// streams follows text turns with server-sent events.
type streams struct{ *api }

func (h streams) routes(r router) {
	r.Echo.GET("/api/threads/:id/messages/stream", onThread(h.resume), r.ofThread)
	r.Echo.GET("/api/threads/:id/stream", onThread(h.resume), r.ofThread)
	// useChat appends its chat's id to the address that takes its messages.
	r.Echo.GET("/api/threads/:id/messages/:chat_id/stream", onThread(h.resume), r.ofThread)
}

// explain puts a failure into words for the client of a stream.
func explain(err error) string { return classify(err).Message }

// resumeAddress leads useChat to the route where it resumes. It appends that to the whole address that takes its
// messages, and so to a query there: messages?sdk=7/CHAT/stream.
func resumeAddress(c echo.Context) error {
	r := c.Request()
	query, appended := strings.CutSuffix(r.URL.RawQuery, "/stream")
	chat := strings.LastIndexByte(query, '/')
	messages := strings.HasPrefix(r.URL.Path, "/api/threads/") && strings.HasSuffix(r.URL.Path, "/messages")
	if r.Method != http.MethodGet || !appended || chat < 0 || !messages {
		return nil
	}
	r.URL.RawQuery = query[:chat]
	r.URL.Path += "/stream"
	if r.URL.RawPath != "" {
		r.URL.RawPath += "/stream"
	}
	return nil
}

// resume follows the turn that runs on a thread, from its beginning or from the event after a
// number. Without a number the answer is 204 if no turn runs; with one, the rest of a turn that has
// just ended is sent.
func (h streams) resume(c echo.Context, key thread.Key) error {
	after, turnID, err := resumePoint(c)
	if err != nil {
		return err
	}
	form := streamForm{}
	if form.inStates, err = sdkAsksInStates(c); err != nil {
		return err
	}
	if _, err := h.Store.Thread(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	t := h.Chat.Running(key)
	if t == nil || turnID != "" && t.ID() != turnID || after < 0 && t.Ended() || !t.Begins(c.Request().Context()) {
		return c.NoContent(http.StatusNoContent)
	}
	return h.stream(c, key, after, func() (chat.Answer, error) { return chat.Answer{Reply: t}, nil }, form)
}

// resumePoint reads ?after=N, or the header with which a browser's EventSource reconnects, whose
// value is an id written by uistream.Writer.
func resumePoint(c echo.Context) (after int64, turnID string, err error) {
	last := c.Request().Header.Get("Last-Event-ID")
	if c.QueryParam("after") != "" || last == "" {
		after, err = input.Int(c, "after", -1, 0, math.MaxInt32)
		return after, "", err
	}
	turnID, number, ok := strings.Cut(last, ":")
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || n < 0 || !input.ValidID(turnID, maxThreadID) {
		return 0, "", problem.Invalid("Last-Event-ID", "Last-Event-ID is not an id from this server.")
	}
	return n, turnID, nil
}

// intoCallAnswer is the answer for a text that went into a live call, which answers by voice.
type intoCallAnswer struct {
	CallID      string         `json:"call_id"`
	UserMessage thread.Message `json:"user_message"`
}

// intoCall reports to a client that wants a stream that its text went into a live call: by a stream
// without a message, since the answer is spoken.
func (a *api) intoCall(c echo.Context, answer intoCallAnswer) {
	w := uistream.New(c.Response(), a.streaming, "", explain)
	err := w.Write("", uistream.Chunk{Type: "start"}, uistream.Chunk{Type: "data-said", Data: answer, Transient: true},
		uistream.Chunk{Type: "finish"})
	if err == nil {
		err = w.Done()
	}
	if err != nil {
		a.Logger.Debug("stream ended early", "error", err, "request_id", requestID(c))
	}
}

// say returns a function that takes what a user types, once, and then forgets it: it is saved, and may be large.
func (a *api) say(c echo.Context, req chat.TurnRequest, mode chat.Mode) func() (chat.Answer, error) {
	req.User = identity(c).Name
	return func() (chat.Answer, error) {
		answer, err := a.Chat.Say(c.Request().Context(), req, mode)
		req = chat.TurnRequest{}
		input.Release(c)
		return answer, orThread(err)
	}
}

// sdkAsksInStates reads ?sdk=N, the AI SDK's major version: from 6 on, approvals are states of a
// tool's part. Earlier versions fail on them.
func sdkAsksInStates(c echo.Context) (bool, error) {
	generation := c.QueryParam("sdk")
	if generation == "" {
		return false, nil
	}
	n, err := strconv.Atoi(generation)
	if err != nil || n < 5 || n > 99 {
		return false, problem.Invalid("sdk", "sdk must be the major version of the AI SDK: 5, 6 or 7.")
	}
	return n >= 6, nil
}

// streamForm says in which form a turn is streamed.
type streamForm struct {
	inStates       bool            // approvals are states of a tool's part, at which the stream ends
	answered, open map[string]bool // for [uistream.Writer.GoOn]
	stops          bool            // the turn ends when the client goes away
}

// stream answers with the events of a turn, in a form chosen by the client. It omits the ids with which a client
// resumes if they are those of a saved answer.
func (a *api) stream(
	c echo.Context, key thread.Key, after int64, begin func() (chat.Answer, error), form streamForm,
) error {
	release, ok := a.limits.Sockets.Take(key.Owner)
	if !ok {
		return problem.TooMany("too_many_sockets", "Too many sockets and streams are open. Close one first.",
			problem.RetryFull)
	}
	defer release()
	answer, err := begin()
	if err != nil {
		return err
	}
	if answer.Reply == nil {
		a.intoCall(c, intoCallAnswer{answer.CallID, answer.Message})
		return nil
	}
	held, letGo := a.auth.Sessions.Hold(c.Request().Context(), identity(c))
	defer letGo()
	ctx, cancel := context.WithCancel(held)
	defer cancel()
	id, stop := "", func() {}
	if t := answer.Turn(); t != nil {
		id, stop = t.ID(), t.Interrupt
		leave := t.Join()
		defer func() { leave(c.Request().Context().Err() != nil) }()
	}
	w := uistream.New(c.Response(), a.streaming, id, explain)
	if form.inStates {
		w.AskInStates()
	}
	w.GoOn(form.answered, form.open)
	err = w.Follow(answer.Reply.Events(ctx, int(after)+1), cancel)
	if form.stops && c.Request().Context().Err() != nil {
		stop()
	}
	if err != nil && w.Begun() {
		a.Logger.Debug("stream ended early", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		return nil
	}
	return err
}
