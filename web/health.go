package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// healthReader is what the readiness check needs of the store.
type healthReader interface {
	Healthy(ctx context.Context) error
}

const readyTimeout = 3 * time.Second

// health serves the health checks.
type health struct {
	store   healthReader
	metrics *Metrics
	closing *atomic.Bool
	log     *slog.Logger
}

func (h *health) routes(r router) {
	r.GET("/healthz", h.healthz)
	r.GET("/readyz", h.readyz)
	r.GET("/metrics", echo.WrapHandler(h.metrics.Handler()), r.user)
}

// healthz answers as long as the process does.
func (h *health) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// readyz reports whether new work should be sent here.
func (h *health) readyz(c echo.Context) error {
	if h.closing.Load() {
		return problem.ErrShuttingDown
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	err := h.store.Healthy(ctx)
	if errors.Is(err, persistence.ErrFenced) {
		return storageUnavailable("Other processes took this one for dead; it is restarting.")
	}
	if err != nil {
		h.log.Error("database does not answer or accepts no changes", "error", err)
		return storageUnavailable("The database does not answer or accepts no changes.")
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}
