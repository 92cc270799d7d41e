package web

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/thread"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/uistream"
)

// streams follows text turns with server-sent events.
type streams struct {
	chat interface {
		Running(key thread.Key) *chat.Turn
		Follow(ctx context.Context, key thread.Key) (*chat.Followed, error)
	}
	store  threadReader
	limit  *access.CountLimit
	auth   *access.Authenticator
	timing uistream.Timing
	log    *slog.Logger
}

func (h *streams) routes(r router) {
	r.Echo.GET("/api/threads/:id/messages/stream", onThread(h.resume), r.user)
	r.Echo.GET("/api/threads/:id/stream", onThread(h.resume), r.user)
	// useChat appends its chat's id to the address that takes its messages.
	r.Echo.GET("/api/threads/:id/messages/:chat_id/stream", onThread(h.resume), r.user)
}

// explain puts a failure into words for the client of a stream.
func explain(err error) string { return classify(err).Message }

// resumeAddress leads useChat to the route where it resumes. It appends that to the whole address that takes its
// messages, and so to a query there: messages?sdk=7/CHAT/stream.
func resumeAddress(c echo.Context) error {
	r := c.Request()
	query, appended := strings.CutSuffix(r.URL.RawQuery, "/stream")
	chat := strings.LastIndexByte(query, '/')
	if r.Method != http.MethodGet || !appended || chat < 0 || !strings.HasPrefix(r.URL.Path, "/api/threads/") || !strings.HasSuffix(r.URL.Path, "/messages") {
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
// just ended is sent. The turn of another process is sent from its beginning in any case.
func (h *streams) resume(c echo.Context, key thread.Key) error {
	after, turnID, err := resumePoint(c)
	if err != nil {
		return err
	}
	form := streamForm{}
	if form.inStates, err = sdkAsksInStates(c); err != nil {
		return err
	}
	if _, err := h.store.Thread(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	t := h.chat.Running(key)
	if t != nil && (turnID == "" || t.ID() == turnID) && (after >= 0 || !t.Ended()) && t.Begins(c.Request().Context()) {
		return h.stream(c, key, after, func() (anyTurn, error) { return t, nil }, form)
	}
	elsewhere, err := h.chat.Follow(c.Request().Context(), key)
	switch {
	case errors.Is(err, chat.ErrIdle), err == nil && turnID != "" && elsewhere.ID() != turnID:
		return c.NoContent(http.StatusNoContent)
	case err != nil:
		return orThread(err)
	}
	return h.stream(c, key, -1, func() (anyTurn, error) { return elsewhere, nil }, form)
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
		return 0, "", problem.BadRequest("invalid_value", "Last-Event-ID", "Last-Event-ID is not an id from this server.")
	}
	return n, turnID, nil
}

// intoCall reports to a client that wants a stream that its text went into a live call: by a stream
// without a message, since the answer is spoken.
func (h *streams) intoCall(c echo.Context, answer intoCallAnswer) {
	w := uistream.New(c.Response(), h.timing, "", explain)
	err := w.Write("", uistream.Chunk{Type: "start"}, uistream.Chunk{Type: "data-said", Data: answer, Transient: true}, uistream.Chunk{Type: "finish"})
	if err == nil {
		err = w.Done()
	}
	if err != nil {
		h.log.Debug("stream ended early", "error", err, "request_id", requestID(c))
	}
}

// streamForm says in which form a turn is streamed.
type streamForm struct {
	inStates       bool            // approvals are states of a tool's part, at which the stream ends
	answered, open map[string]bool // for [uistream.Writer.GoOn]
}

// anyTurn is a turn of this process or of another one.
type anyTurn interface {
	ID() string
	Events(ctx context.Context, from int) iter.Seq2[chat.Event, error]
	Wait(ctx context.Context) (chat.Result, error)
}

// stream is follow for any turn, in a form chosen by the client. It omits the ids with which a client resumes if another
// process numbers the events.
func (h *streams) stream(c echo.Context, key thread.Key, after int64, turn func() (anyTurn, error), form streamForm) error {
	release, ok := h.limit.Take(key.Owner)
	if !ok {
		return problem.TooMany("too_many_sockets", "Too many sockets and streams are open. Close one first.", problem.RetryFull)
	}
	defer release()
	t, err := turn()
	if err != nil {
		return err
	}
	held, letGo := h.auth.Sessions.Hold(c.Request().Context(), identity(c))
	defer letGo()
	ctx, cancel := context.WithCancel(held)
	defer cancel()
	id := t.ID()
	switch t := t.(type) {
	case *chat.Followed:
		id = ""
	case *chat.Turn:
		leave := t.Join()
		defer func() { leave(c.Request().Context().Err() != nil) }()
	}
	w := uistream.New(c.Response(), h.timing, id, explain)
	if form.inStates {
		w.AskInStates()
	}
	w.GoOn(form.answered, form.open)
	err = w.Follow(t.Events(ctx, int(after)+1), cancel)
	if err != nil && w.Begun() {
		h.log.Debug("stream ended early", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		return nil
	}
	return err
}
