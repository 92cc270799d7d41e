package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/persistence"
)

// threadStore is what the routes about threads need of the store.
type threadStore interface {
	CreateThread(ctx context.Context, owner, title string) (persistence.Thread, error)
	Thread(ctx context.Context, key persistence.Key) (persistence.Thread, error)
	Threads(ctx context.Context, owner string, filter persistence.ThreadFilter) ([]persistence.Thread, string, error)
	RenameThread(ctx context.Context, key persistence.Key, title string) (persistence.Thread, error)
	LiveCall(ctx context.Context, key persistence.Key) (persistence.CallRecord, error)
	ResetThread(ctx context.Context, key persistence.Key) error
}

type threadPage struct {
	Threads    []persistence.Thread `json:"threads"`
	NextCursor *string              `json:"next_cursor"` // null on the last page
}

func (s *Server) listThreads(c echo.Context) error {
	limit, err := queryInt(c, "limit", 50, 1, 200)
	if err != nil {
		return err
	}
	filter := persistence.ThreadFilter{Limit: int(limit), Cursor: c.QueryParam("cursor"), Query: c.QueryParam("q")}
	if filter.Cursor != "" && !validID(filter.Cursor, maxCursor) {
		return badRequest("invalid_value", "cursor", "cursor is not one that this server gave.")
	}
	if utf8.RuneCountInString(filter.Query) > maxQuery || !utf8.ValidString(filter.Query) || strings.ContainsRune(filter.Query, 0) {
		return badRequest("invalid_value", "q", fmt.Sprintf("q must be text of at most %d characters.", maxQuery))
	}
	threads, next, err := s.store.Threads(c.Request().Context(), caller(c).Owner, filter)
	if err != nil {
		return err
	}
	page := threadPage{Threads: threads}
	if page.Threads == nil {
		page.Threads = []persistence.Thread{}
	}
	if next != "" {
		page.NextCursor = &next
	}
	return c.JSON(http.StatusOK, page)
}

func (s *Server) createThread(c echo.Context) error {
	var body struct {
		Title string `json:"title"`
	}
	if err := readJSON(c, &body, true); err != nil {
		return err
	}
	title, err := cleanTitle(body.Title)
	if err != nil {
		return err
	}
	thread, err := s.store.CreateThread(c.Request().Context(), caller(c).Owner, title)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/threads/"+thread.ID)
	return c.JSON(http.StatusCreated, thread)
}

func (s *Server) readThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	thread, err := s.store.Thread(c.Request().Context(), key)
	if err != nil {
		return orThread(err)
	}
	return c.JSON(http.StatusOK, thread)
}

func (s *Server) renameThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	var body struct {
		Title *string `json:"title"`
	}
	if err := readJSON(c, &body, false); err != nil {
		return err
	}
	if body.Title == nil {
		return badRequest("missing_value", "title", "title is missing.")
	}
	title, err := cleanTitle(*body.Title)
	if err != nil {
		return err
	}
	thread, err := s.store.RenameThread(c.Request().Context(), key, title)
	if err != nil {
		return orThread(err)
	}
	return c.JSON(http.StatusOK, thread)
}

func (s *Server) deleteThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	if err := s.removeThread(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	return c.NoContent(http.StatusNoContent)
}

// removeThread ends the thread's live call and its turn first: what they would
// still write has nowhere to go.
func (s *Server) removeThread(ctx context.Context, key persistence.Key) error {
	if callID, ok := s.calls.Live(key.Owner, key.Thread); ok {
		if err := s.calls.Hangup(ctx, key.Owner, callID); err != nil && !callIsGone(err) {
			return err
		}
	}
	return s.chat.DeleteSession(ctx, key)
}

func callIsGone(err error) bool {
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e.Code == bridge.CodeNoCall
	}
	return errors.Is(err, persistence.ErrNotFound)
}

// resetThread starts a fresh context: later turns and calls no longer see what came
// before, the live call neither.
func (s *Server) resetThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := s.store.ResetThread(ctx, key); err != nil {
		return orThread(err)
	}
	s.calls.Forget(key)
	thread, err := s.store.Thread(ctx, key)
	if err != nil {
		return orThread(err)
	}
	return c.JSON(http.StatusOK, thread)
}
