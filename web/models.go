package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// The kinds of a [Model].
const (
	ModelText     = "text"     // answers typed messages
	ModelRealtime = "realtime" // answers calls
)

// Model is a model that is configured.
type Model struct {
	// Provider is the name by which a text session chooses it, or that of the
	// upstream of calls.
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Kind     string `json:"kind"` // ModelText or ModelRealtime
	// Default is set on the one of its kind that answers unless told otherwise.
	Default bool `json:"default"`
	// Voice is that of a model that speaks.
	Voice string `json:"voice,omitempty"`
}

// models answers the route about the models that are configured.
type models struct {
	upstream Upstream
	texts    []Model
}

func (h *models) routes(r router) { r.GET("/api/models", h.list, r.user) }

// list tells the models: the one of calls, then those of typed messages.
func (h *models) list(c echo.Context) error {
	u := h.upstream
	all := []Model{{Provider: u.Name, Model: u.Model, Kind: ModelRealtime, Default: true, Voice: u.Voice}}
	return c.JSON(http.StatusOK, map[string]any{"models": append(all, h.texts...)})
}
