package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
	"voicebridge/web/problem"
)

// hookRoutes serves the routes about hooks.
type hookRoutes struct{ *api }

func (h hookRoutes) routes(r router) {
	r.explain = orHook
	route(r, "GET /api/hooks", h.list)
	route(r, "POST /api/hooks", h.add, r.text)
	route(r, "GET /api/hooks/:hook_id", h.read)
	route(r, "PATCH /api/hooks/:hook_id", h.change)
	route(r, "DELETE /api/hooks/:hook_id", h.remove)
	route(r, "GET /api/hooks/:hook_id/deliveries", h.deliveries)
	route(r, "POST /api/hooks/:hook_id/deliveries/:delivery/retry", h.retry, r.text)
	route(r, "POST /api/hooks/:hook_id/test", h.test, r.text)
}

// hookAnswer is a hook in the form that clients get.
type hookAnswer struct {
	ID      string   `json:"id"`
	URL     string   `json:"url"`
	Events  []string `json:"events"`
	Enabled bool     `json:"enabled"`
	// OffReason is "gone" if the receiver answered 410, which switched it off.
	OffReason string    `json:"off_reason,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// createdHook is the only answer that shows the secret.
type createdHook struct {
	hookAnswer

	// Secret is "whsec_" and 32 bytes in base64, which no other answer shows.
	Secret string `json:"secret"`
}

func showHook(h hooked.Hook) hookAnswer {
	return hookAnswer{
		ID: h.ID, URL: h.URL, Events: h.Events, Enabled: h.Enabled, OffReason: h.OffReason, CreatedAt: h.CreatedAt,
	}
}

type deliveryAnswer struct {
	// ID is the webhook-id, the same in each attempt.
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	State    hooked.State `json:"state"`
	Attempts int          `json:"attempts"`
	// LastStatus is the status of the last answer; null without one.
	LastStatus *int `json:"last_status"`
	// LastError says why there was no answer.
	LastError string    `json:"last_error,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// NextAt is when it is sent again; null if there is no further attempt.
	NextAt *time.Time `json:"next_at"`
}

func showDelivery(d hooked.Delivery) deliveryAnswer {
	a := deliveryAnswer{
		ID: d.ID, Type: d.Type, State: d.State, Attempts: d.Attempts, LastError: d.LastError, CreatedAt: d.CreatedAt,
		NextAt: d.NextAt,
	}
	if d.LastStatus != 0 {
		a.LastStatus = &d.LastStatus
	}
	return a
}

// hookBody is a hook as clients write it; what is missing stays as it is.
type hookBody struct {
	URL *string `json:"url" openapi:"maxLength: 2048"`
	// Events are types, or patterns such as call.* and *: call.started, call.ringing, call.answered, call.ended,
	// call.extracted, message.completed, tool.completed, approval.required, turn.finished, budget.warning,
	// recording.ready.
	Events  []string `json:"events" openapi:"minItems: 1, maxItems: 32"`
	Enabled *bool    `json:"enabled"`
}

// apply changes a hook.
func (b hookBody) apply(h *hooked.Hook, check func(string) (string, error)) error {
	if b.URL != nil {
		url, err := check(*b.URL)
		if err != nil {
			return problem.Invalid("url", "url cannot be a hook's: %v.", err)
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

type hookList struct {
	Hooks []hookAnswer `json:"hooks"`
}

func (h hookRoutes) list(ctx context.Context, who caller, _ none) (hookList, error) {
	answer := hookList{Hooks: []hookAnswer{}}
	list, err := h.Store.Hooks.List(ctx, who.Owner)
	for _, hook := range list {
		answer.Hooks = append(answer.Hooks, showHook(hook))
	}
	return answer, err
}

type newHook struct {
	Body hookBody `body:"64 KiB"`
}

// add creates a hook, with a secret that no later answer shows.
func (h hookRoutes) add(ctx context.Context, who caller, in newHook) (answer reply[createdHook], err error) {
	if in.Body.URL == nil || in.Body.Events == nil {
		return answer, problem.Invalid("", "A hook needs url and events.")
	}
	secret := webhook.NewSecret().Reveal()
	hook := hooked.Hook{Owner: who.Owner, Enabled: true, Secret: secret}
	if err := in.Body.apply(&hook, h.CheckHook); err != nil {
		return answer, err
	}
	if hook, err = h.Store.Hooks.Add(ctx, hook); errors.Is(err, persistence.ErrQuota) {
		err = problem.Conflict("too_many_hooks", "",
			fmt.Sprintf("You have %d hooks, which is the limit.", hooked.MaxHooks))
	}
	return created("/api/hooks/"+hook.ID, createdHook{showHook(hook), secret}), err
}

type oneHook struct {
	ID string `path:"hook_id"`
}

func (h hookRoutes) read(ctx context.Context, who caller, in oneHook) (hookAnswer, error) {
	hook, err := h.Store.Hooks.Hook(ctx, who.Owner, in.ID)
	return showHook(hook), err
}

type changedHook struct {
	ID   string   `path:"hook_id"`
	Body hookBody `body:"64 KiB"`
}

func (h hookRoutes) change(ctx context.Context, who caller, in changedHook) (hookAnswer, error) {
	apply := func(hook *hooked.Hook) error { return in.Body.apply(hook, h.CheckHook) }
	hook, err := h.Store.Hooks.Change(ctx, who.Owner, in.ID, apply)
	return showHook(hook), err
}

func (h hookRoutes) remove(ctx context.Context, who caller, in oneHook) (none, error) {
	return none{}, h.Store.Hooks.Delete(ctx, who.Owner, in.ID)
}

type someDeliveries struct {
	ID    string `path:"hook_id"`
	Limit int64  `query:"limit" range:"50,1,200"`
}

type deliveryList struct {
	Deliveries []deliveryAnswer `json:"deliveries"`
}

func (h hookRoutes) deliveries(ctx context.Context, who caller, in someDeliveries) (deliveryList, error) {
	answer := deliveryList{Deliveries: []deliveryAnswer{}}
	list, err := h.Store.Hooks.Deliveries(ctx, who.Owner, in.ID, int(in.Limit))
	for _, d := range list {
		answer.Deliveries = append(answer.Deliveries, showDelivery(d))
	}
	return answer, err
}

type oneDelivery struct {
	Hook string `path:"hook_id"`
	ID   string `path:"delivery"`
}

func (h hookRoutes) retry(ctx context.Context, who caller, in oneDelivery) (reply[deliveryAnswer], error) {
	d, err := h.Store.Hooks.Retry(ctx, who.Owner, in.Hook, in.ID)
	if errors.Is(err, persistence.ErrConflict) {
		err = problem.Conflict("delivery_busy", "", "The event is being sent at this moment.")
	}
	return accepted(showDelivery(d)), err
}

// test sends an event hook.test to the hook, whatever events it names.
func (h hookRoutes) test(ctx context.Context, who caller, in oneHook) (reply[deliveryAnswer], error) {
	d, err := h.Store.Hooks.Test(ctx, who.Owner, in.ID)
	return accepted(showDelivery(d)), err
}

// orHook says what was not found.
func orHook(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return problem.NotFound("hook_not_found", "There is no such hook or delivery, or it is not yours.")
	}
	return err
}
