package web

import (
	"context"
	"fmt"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
	"voicebridge/web/input"
)

const identityKey = "identity"

// router registers the routes of a handler.
type router struct {
	*echo.Echo
	// user admits authenticated requests; userOrSecret also accepts client secrets.
	user, userOrSecret echo.MiddlewareFunc
	// text counts a text of the owner; thread rejects an owner who has too many threads.
	text, thread echo.MiddlewareFunc
}

// GET registers a route for GET, and for HEAD, which is answered alike but without a body (RFC 9110,
// section 9.3.2): the server drops it. Sockets and streams have only GET, from Echo itself.
func (r router) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
	r.HEAD(path, h, m...)
	r.Echo.GET(path, h, m...)
}

// identified admits authenticated requests.
func identified(auth *access.Authenticator, bodies *access.ByteLimit, threads names, events securityLog, secretsToo bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			who, err := auth.Identify(c.Request(), access.PeerOf(c.Request(), c.RealIP()), secretsToo, c.Param("call_id"))
			if err != nil {
				if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
					events.refused(c, "token refused", err)
				}
				return err
			}
			c.Set(identityKey, who)
			input.SetMemory(c, func(ctx context.Context, n int64) (release func(), err error) { return bodies.Take(ctx, who.Owner, n) })
			defer input.Release(c)
			threads.inPath(c, who.Owner)
			return next(c)
		}
	}
}

// admits rejects an owner whom a limit rejects.
func admits(limit func(ctx context.Context, owner string) error) echo.MiddlewareFunc {
	return before(func(c echo.Context) error { return limit(c.Request().Context(), identity(c).Owner) })
}

// identity returns the identity of an authenticated request. It panics on a route without
// authentication, which is a bug.
func identity(c echo.Context) access.Identity {
	who, ok := c.Get(identityKey).(access.Identity)
	if !ok {
		panic(fmt.Sprintf("route %s has no authentication", c.Path()))
	}
	return who
}
