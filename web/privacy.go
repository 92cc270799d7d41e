package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/persistence/privacy"
	"voicebridge/thread"
)

// ownersData serves the routes by which an owner takes everything along, and leaves.
type ownersData struct {
	parts   []privacy.Part
	threads interface {
		Threads(ctx context.Context, owner string, filter persistence.ThreadFilter) ([]persistence.Thread, string, error)
	}
	remove *remover
	events securityLog
	log    *slog.Logger
}

func (h *ownersData) routes(r router) {
	r.Echo.GET("/api/export", h.export, r.user, r.text) // no HEAD, which would read all of it
	r.DELETE("/api/me", h.erase, r.user)
}

// export returns everything of the owner as a ZIP file.
func (h *ownersData) export(c echo.Context) error {
	owner := identity(c).Owner
	h.events.note(c, "data exported", owner)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "application/zip")
	header.Set(echo.HeaderContentDisposition, `attachment; filename="voicebridge.zip"`)
	c.Response().WriteHeader(http.StatusOK)
	if err := privacy.Export(c.Request().Context(), c.Response(), owner, h.parts); err != nil {
		// Half a file must not look complete.
		h.log.Warn("export interrupted", "owner", owner, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler)
	}
	return nil
}

// erase deletes everything of the owner: calls and turns are ended first, page sessions and client secrets last.
func (h *ownersData) erase(c echo.Context) error {
	ctx, owner := context.WithoutCancel(c.Request().Context()), identity(c).Owner // half of it is nothing that anybody wants
	h.events.note(c, "data erased", owner)
	for {
		page, _, err := h.threads.Threads(ctx, owner, persistence.ThreadFilter{Limit: 200})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, t := range page {
			if err := h.remove.thread(ctx, thread.Key{Owner: owner, Thread: t.ID}); err != nil && !errors.Is(err, persistence.ErrNotFound) {
				return err
			}
		}
	}
	if err := privacy.Erase(ctx, owner, h.parts); err != nil {
		return fmt.Errorf("erase owner: %w", err)
	}
	return c.NoContent(http.StatusNoContent)
}
