package web

import (
	"context"
	"errors"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/web/conductor"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

// conductors answers the route of apps that speak themselves.
type conductors struct {
	store interface {
		threadReader
		TextSession(ctx context.Context, key persistence.Key) (persistence.TextSession, error)
	}
	sessions *conductor.Conductors
	door     *socketDoor
}

func (h *conductors) routes(r router) { r.GET("/conductor", h.conduct, r.user) }

// conduct opens the socket of an app that runs tools itself and speaks with its
// own voice.
func (h *conductors) conduct(c echo.Context) error {
	id := c.QueryParam("session_id")
	if id == "" {
		return problem.BadRequest("missing_value", "session_id", "session_id is missing: it is the id of a thread.")
	}
	if !input.ValidID(id, maxThreadID) {
		return errNoThread
	}
	key := persistence.Key{Owner: caller(c).Owner, Thread: id}
	if err := h.door.check(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := h.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	session, err := h.store.TextSession(ctx, key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	tools, err := conductor.NewTools(session, c.QueryParam("tools"))
	if err != nil {
		return err
	}
	return h.door.upgrade(c, "connect again", func(ctx context.Context, k *socket.Socket) error {
		return h.sessions.Serve(ctx, key, tools, k)
	})
}
