package web

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence/export"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// exports serves the route that exports a thread.
type exports struct {
	store interface {
		threadReader
		messageStore
	}
	log *slog.Logger
}

func (h *exports) routes(r router) { r.GET("/api/threads/:id/export", onThread(h.export), r.user) }

// export returns a whole thread as a file.
func (h *exports) export(c echo.Context, key thread.Key) error {
	format := export.Markdown
	if name := c.QueryParam("format"); name != "" {
		var ok bool
		if format, ok = export.FormatOf(name); !ok {
			return problem.BadRequest("invalid_value", "format", "format must be markdown, json or srt.")
		}
	}
	ctx := c.Request().Context()
	thread, err := h.store.Thread(ctx, key)
	if err != nil {
		return orThread(err)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, format.MediaType())
	header.Set(echo.HeaderContentDisposition, fmt.Sprintf(`attachment; filename="thread-%s.%s"`, thread.ID, format.Extension()))
	c.Response().WriteHeader(http.StatusOK)
	if err := export.Write(c.Response(), format, thread, export.Messages(ctx, h.store, key)); err != nil {
		// Half a file must not look complete.
		h.log.Warn("export interrupted", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler)
	}
	return nil
}
