package web

import (
	"context"
	"errors"
	"regexp"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/web/access"
	"voicebridge/web/conductor"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

// conductors serves the route of apps with their own voice.
type conductors struct {
	store interface {
		threadReader
		EnsureThread(ctx context.Context, key persistence.Key) (created bool, err error)
		TextSession(ctx context.Context, key persistence.Key) (persistence.TextSession, error)
	}
	limits   *access.Allowances
	sessions *conductor.Conductors
	door     *socketDoor
}

func (h *conductors) routes(r router) { r.Echo.GET("/conductor", h.conduct, r.user) }

// conduct opens the socket of an app that runs tools itself and speaks with its own voice.
func (h *conductors) conduct(c echo.Context) error {
	id := c.QueryParam("session_id")
	if id == "" {
		return problem.BadRequest("missing_value", "session_id", "session_id is missing: it is the id of a thread.")
	}
	if !input.ValidID(id, maxThreadID) {
		return errSessionID
	}
	key := persistence.Key{Owner: identity(c).Owner, Thread: id}
	if err := h.door.check(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.ensure(ctx, key); err != nil {
		return err
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

// newSession matches ids that an app may choose for a new session.
var newSession = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

var errSessionID = problem.BadRequest("invalid_value", "session_id", "session_id must be 1 to 64 letters, digits, - and _.")

// ensure finds the app's session, or creates one with the id that the app chose.
func (h *conductors) ensure(ctx context.Context, key persistence.Key) error {
	_, err := h.store.Thread(ctx, key)
	if !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	if !newSession.MatchString(key.Thread) {
		return errSessionID
	}
	if err := h.limits.Thread(ctx, key.Owner); err != nil {
		return err
	}
	_, err = h.store.EnsureThread(ctx, key)
	return orThread(err)
}
