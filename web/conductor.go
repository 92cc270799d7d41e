package web

import (
	"context"
	"errors"
	"regexp"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/conductor"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

// conductors serves the route of apps with their own voice.
type conductors struct{ *api }

func (h conductors) routes(r router) { r.Echo.GET("/conductor", h.conduct, r.user) }

// conduct opens the socket of an app that runs tools itself and speaks with its own voice.
func (h conductors) conduct(c echo.Context) error {
	id := c.QueryParam("session_id")
	if id == "" {
		return problem.BadRequest("missing_value", "session_id", "session_id is missing: it is the id of a thread.")
	}
	if !input.ValidID(id, maxThreadID) {
		return errSessionID
	}
	if err := h.door.check(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	choice := threadAssistant{AssistantID: assistantID{set: true, id: c.QueryParam("assistant_id")}}
	chosen, err := h.checkChoice(ctx, identity(c).Owner, choice)
	if err != nil {
		return err
	}
	key, err := h.ensure(ctx, thread.Key{Owner: identity(c).Owner, Thread: id})
	if err != nil {
		return err
	}
	if chosen.ID != "" {
		if _, err := h.assign(ctx, key, choice, chosen); err != nil {
			return orThread(err)
		}
	}
	session, err := h.Store.TextSession(ctx, key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	tools, err := conductor.NewTools(session, c.QueryParam("tools"))
	if err != nil {
		return err
	}
	return h.door.upgrade(c, "connect again", func(ctx context.Context, k *socket.Socket) error {
		return h.api.conductors.Serve(ctx, key, id, identity(c).Name, tools, k)
	})
}

// newSession matches ids that an app may choose for a new session.
var newSession = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

var errSessionID = problem.Invalid("session_id", "session_id must be 1 to 64 letters, digits, - and _.")

// ensure finds the app's session, or creates one with the id that the app chose, and returns its key.
func (h conductors) ensure(ctx context.Context, chosen thread.Key) (thread.Key, error) {
	key := h.meant(ctx, chosen)
	_, err := h.Store.Thread(ctx, key)
	if !errors.Is(err, persistence.ErrNotFound) {
		return key, err
	}
	if !newSession.MatchString(chosen.Thread) {
		return key, errSessionID
	}
	if err := h.limits.Thread(ctx, key.Owner); err != nil {
		return key, err
	}
	_, err = h.Store.EnsureThread(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) { // another owner's thread has the id
		key = ownKey(chosen)
		_, err = h.Store.EnsureThread(ctx, key)
	}
	return key, orThread(err)
}
