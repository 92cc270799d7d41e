package web

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"voicebridge/toolkit"
)

// tools answers the route about the tools of a call.
type tools struct {
	// of returns the server's tools of a new call; nil means none.
	of func(ctx context.Context, owner, threadID string) (*toolkit.Registry, error)
}

func (h *tools) routes(r router) { r.GET("/api/tools", h.list, r.user) }

type toolAnswer struct {
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Parameters  json.RawMessage  `json:"parameters"`
	Executor    toolkit.Executor `json:"executor"`
	Server      string           `json:"server,omitempty"`
}

// list tells the tools that a new call of the caller has.
func (h *tools) list(c echo.Context) error {
	all := []toolAnswer{}
	if h.of != nil {
		registry, err := h.of(c.Request().Context(), caller(c).Owner, "")
		if err != nil {
			return err
		}
		for _, e := range registry.Entries() {
			d := e.Tool.Definition()
			all = append(all, toolAnswer{d.Name, d.Description, d.Parameters, e.Executor, e.Server})
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"tools": all})
}
