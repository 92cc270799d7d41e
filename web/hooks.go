package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// hookStore keeps the hooks of owners; *hooked.Store implements it.
type hookStore interface {
	Add(ctx context.Context, h hooked.Hook) (hooked.Hook, error)
	List(ctx context.Context, owner string) ([]hooked.Hook, error)
	Hook(ctx context.Context, owner, id string) (hooked.Hook, error)
	Change(ctx context.Context, owner, id string, fn func(*hooked.Hook) error) (hooked.Hook, error)
	Delete(ctx context.Context, owner, id string) error
	Deliveries(ctx context.Context, owner, hook string, limit int) ([]hooked.Delivery, error)
	Retry(ctx context.Context, owner, hook, id string) (hooked.Delivery, error)
	Test(ctx context.Context, owner, hook string) (hooked.Delivery, error)
}

// hookRoutes serves the routes about hooks.
type hookRoutes struct {
	store hookStore
	// check returns a URL as it is saved, or why it may not be called.
	check func(url string) (string, error)
}

func (h *hookRoutes) routes(r router) {
	r.GET("/api/hooks", h.list, r.user)
	r.POST("/api/hooks", h.add, r.user, r.text)
	r.GET("/api/hooks/:hook_id", h.read, r.user)
	r.PATCH("/api/hooks/:hook_id", h.change, r.user)
	r.DELETE("/api/hooks/:hook_id", h.remove, r.user)
	r.GET("/api/hooks/:hook_id/deliveries", h.deliveries, r.user)
	r.POST("/api/hooks/:hook_id/deliveries/:delivery/retry", h.retry, r.user, r.text)
	r.POST("/api/hooks/:hook_id/test", h.test, r.user, r.text)
}

// hookAnswer is a hook in the form that clients get.
type hookAnswer struct {
	ID      string   `json:"id"`
	URL     string   `json:"url"`
	Events  []string `json:"events"`
	Enabled bool     `json:"enabled"`
	// OffReason is why the hook is off when its owner has not switched it off.
	OffReason string    `json:"off_reason,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// Secret is only in the answer that creates the hook.
	Secret string `json:"secret,omitempty"`
}

func showHook(h hooked.Hook) hookAnswer {
	return hookAnswer{ID: h.ID, URL: h.URL, Events: h.Events, Enabled: h.Enabled, OffReason: h.OffReason, CreatedAt: h.CreatedAt}
}

type deliveryAnswer struct {
	ID         string       `json:"id"` // webhook-id
	Type       string       `json:"type"`
	State      hooked.State `json:"state"`
	Attempts   int          `json:"attempts"`
	LastStatus *int         `json:"last_status"` // null without an answer
	LastError  string       `json:"last_error,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	NextAt     *time.Time   `json:"next_at"` // null if there is no further attempt
}

func showDelivery(d hooked.Delivery) deliveryAnswer {
	a := deliveryAnswer{
		ID: d.ID, Type: d.Type, State: d.State, Attempts: d.Attempts, LastError: d.LastError, CreatedAt: d.CreatedAt, NextAt: d.NextAt,
	}
	if d.LastStatus != 0 {
		a.LastStatus = &d.LastStatus
	}
	return a
}

// hookBody is a hook as clients write it; what is missing stays as it is.
type hookBody struct {
	URL     *string  `json:"url"`
	Events  []string `json:"events"`
	Enabled *bool    `json:"enabled"`
}

// apply changes a hook.
func (b hookBody) apply(h *hooked.Hook, check func(string) (string, error)) error {
	if b.URL != nil {
		url, err := check(*b.URL)
		if err != nil {
			return problem.BadRequest("invalid_value", "url", fmt.Sprintf("url cannot be a hook's: %v.", err))
		}
		h.URL = url
	}
	if b.Events != nil {
		h.Events = b.Events
	}
	if err := hooked.CheckEvents(h.Events); err != nil {
		return problem.BadRequest("invalid_value", "events", persistence.Reason(err)+".")
	}
	if b.Enabled != nil {
		h.Enabled = *b.Enabled
	}
	return nil
}

func (h *hookRoutes) list(c echo.Context) error {
	list, err := h.store.List(c.Request().Context(), identity(c).Owner)
	if err != nil {
		return err
	}
	answer := struct {
		Hooks []hookAnswer `json:"hooks"`
	}{[]hookAnswer{}}
	for _, hook := range list {
		answer.Hooks = append(answer.Hooks, showHook(hook))
	}
	return c.JSON(http.StatusOK, answer)
}

// add creates a hook, with a secret that no later answer shows.
func (h *hookRoutes) add(c echo.Context) error {
	var body hookBody
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	if body.URL == nil || body.Events == nil {
		return problem.BadRequest("invalid_value", "", "A hook needs url and events.")
	}
	secret := webhook.NewSecret().Reveal()
	hook := hooked.Hook{Owner: identity(c).Owner, Enabled: true, Secret: secret}
	if err := body.apply(&hook, h.check); err != nil {
		return err
	}
	hook, err := h.store.Add(c.Request().Context(), hook)
	if errors.Is(err, persistence.ErrQuota) {
		return &problem.Error{Status: http.StatusConflict, Code: "too_many_hooks", Message: fmt.Sprintf("You have %d hooks, which is the limit.", hooked.MaxHooks)}
	}
	if err != nil {
		return err
	}
	answer := showHook(hook)
	answer.Secret = secret
	c.Response().Header().Set(echo.HeaderLocation, "/api/hooks/"+hook.ID)
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusCreated, answer)
}

func (h *hookRoutes) read(c echo.Context) error {
	hook, err := h.store.Hook(c.Request().Context(), identity(c).Owner, c.Param("hook_id"))
	if err != nil {
		return orHook(err)
	}
	return c.JSON(http.StatusOK, showHook(hook))
}

func (h *hookRoutes) change(c echo.Context) error {
	var body hookBody
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	hook, err := h.store.Change(c.Request().Context(), identity(c).Owner, c.Param("hook_id"), func(hook *hooked.Hook) error { return body.apply(hook, h.check) })
	if err != nil {
		return orHook(err)
	}
	return c.JSON(http.StatusOK, showHook(hook))
}

func (h *hookRoutes) remove(c echo.Context) error {
	if err := h.store.Delete(c.Request().Context(), identity(c).Owner, c.Param("hook_id")); err != nil {
		return orHook(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (h *hookRoutes) deliveries(c echo.Context) error {
	limit, err := input.Int(c, "limit", 50, 1, 200)
	if err != nil {
		return err
	}
	list, err := h.store.Deliveries(c.Request().Context(), identity(c).Owner, c.Param("hook_id"), int(limit))
	if err != nil {
		return orHook(err)
	}
	answer := struct {
		Deliveries []deliveryAnswer `json:"deliveries"`
	}{[]deliveryAnswer{}}
	for _, d := range list {
		answer.Deliveries = append(answer.Deliveries, showDelivery(d))
	}
	return c.JSON(http.StatusOK, answer)
}

func (h *hookRoutes) retry(c echo.Context) error {
	d, err := h.store.Retry(c.Request().Context(), identity(c).Owner, c.Param("hook_id"), c.Param("delivery"))
	if errors.Is(err, persistence.ErrConflict) {
		return &problem.Error{Status: http.StatusConflict, Code: "delivery_busy", Message: "The event is being sent at this moment."}
	}
	if err != nil {
		return orHook(err)
	}
	return c.JSON(http.StatusAccepted, showDelivery(d))
}

// test sends an event hook.test to the hook, whatever events it names.
func (h *hookRoutes) test(c echo.Context) error {
	d, err := h.store.Test(c.Request().Context(), identity(c).Owner, c.Param("hook_id"))
	if err != nil {
		return orHook(err)
	}
	return c.JSON(http.StatusAccepted, showDelivery(d))
}

// orHook says what was not found.
func orHook(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return problem.NotFound("hook_not_found", "There is no such hook or delivery, or it is not yours.")
	}
	return err
}
