package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/persistence/privacy"
	"voicebridge/thread"
)

// ownersData serves the routes by which an owner takes everything along, and leaves.
type ownersData struct{ *api }

func (h ownersData) routes(r router) {
	r.Echo.GET("/api/export", h.export, r.user, r.text) // no HEAD, which would read all of it
	r.user = h.passes(nobody, false)
	route(r, "DELETE /api/me", h.erase)
}

// export returns everything of the owner as a ZIP file.
func (h ownersData) export(c echo.Context) error {
	owner := identity(c).Owner
	h.events.note(caller{identity(c), c}, "data exported")
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "application/zip")
	header.Set(echo.HeaderContentDisposition, `attachment; filename="voicebridge.zip"`)
	c.Response().WriteHeader(http.StatusOK)
	if err := privacy.Export(c.Request().Context(), c.Response(), owner, h.Privacy); err != nil {
		// Half a file must not look complete.
		h.Logger.Warn("export interrupted", "owner", owner, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler)
	}
	return nil
}

// erase deletes everything of the owner: calls and turns are ended first, page sessions and client secrets last.
func (h ownersData) erase(ctx context.Context, who caller, _ none) (none, error) {
	ctx = context.WithoutCancel(ctx) // half of it is nothing that anybody wants
	if passed(who.c) {
		return none{}, h.EraseHere(ctx, who.Owner)
	}
	h.events.note(who, "data erased")
	for {
		page, _, err := h.Store.Threads(ctx, who.Owner, persistence.ThreadFilter{Limit: 200})
		if err != nil {
			return none{}, err
		}
		if len(page) == 0 {
			break
		}
		for _, t := range page {
			err := h.removeAnywhere(ctx, who, thread.Key{Owner: who.Owner, Thread: t.ID})
			if err != nil && !errors.Is(err, persistence.ErrNotFound) {
				return none{}, err
			}
		}
	}
	if err := h.eraseElsewhere(ctx, who); err != nil {
		return none{}, fmt.Errorf("erase owner: %w", err)
	}
	if err := privacy.Erase(ctx, who.Owner, h.Privacy); err != nil {
		return none{}, fmt.Errorf("erase owner: %w", err)
	}
	return none{}, nil
}

// removeAnywhere deletes a thread by the process that has its call or turn.
func (h ownersData) removeAnywhere(ctx context.Context, who caller, key thread.Key) error {
	instance, err := h.holderOf(ctx, key)
	if err == nil && instance != "" && instance != h.Store.Instance() {
		path := "/api/threads/" + url.PathEscape(key.Thread)
		if err = h.ask(ctx, instance, http.MethodDelete, path, who.Pass("")); !errors.Is(err, persistence.ErrGone) {
			return err
		}
		_, err = h.Store.Recover(ctx)
	}
	if err != nil {
		return err
	}
	return h.removeThread(ctx, key)
}

// eraseElsewhere has all other processes erase what they have of the owner: they may have folders on other machines.
func (h ownersData) eraseElsewhere(ctx context.Context, who caller) error {
	others, err := h.Store.Cluster.Others(ctx)
	errs := []error{err}
	for _, instance := range others {
		err := h.ask(ctx, instance, http.MethodDelete, "/api/me", who.Pass(""))
		if err != nil && !errors.Is(err, persistence.ErrGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
