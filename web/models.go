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

// Model is a configured model.
type Model struct {
	// Provider is the name by which a text session chooses it, or the name of the upstream of
	// calls.
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Kind     string `json:"kind"` // ModelText or ModelRealtime
	// Default marks the default of its kind.
	Default bool `json:"default"`
	// Voice is the voice of a realtime model.
	Voice string `json:"voice,omitempty"`
}

// models serves the route about the configured models.
type models struct{ all []Model }

func (h *models) routes(r router) { r.GET("/api/models", h.list, r.user) }

// list returns the models: those for calls, then those for typed messages.
func (h *models) list(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]any{"models": append([]Model{}, h.all...)})
}
