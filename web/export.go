package web

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence/export"
)

// exportThread gives a whole thread as a file.
func (s *Server) exportThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	format := export.Markdown
	if name := c.QueryParam("format"); name != "" {
		var ok bool
		if format, ok = export.FormatOf(name); !ok {
			return badRequest("invalid_value", "format", "format must be markdown, json or srt.")
		}
	}
	ctx := c.Request().Context()
	thread, err := s.store.Thread(ctx, key)
	if err != nil {
		return orThread(err)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, format.MediaType())
	h.Set(echo.HeaderContentDisposition, fmt.Sprintf(`attachment; filename="thread-%s.%s"`, thread.ID, format.Extension()))
	c.Response().WriteHeader(http.StatusOK)
	if err := export.Write(c.Response(), format, thread, export.Messages(ctx, s.store, key)); err != nil {
		// Half a file must not look like a whole one.
		s.log.Warn("export broken off", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler)
	}
	return nil
}
