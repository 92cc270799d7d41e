package web

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
	"voicebridge/web/input"
)

// pageSessions serves the routes for signing in and out.
type pageSessions struct{ *api }

func (h pageSessions) routes(r router) {
	r.POST("/api/session", h.signIn)
	r.DELETE("/api/session", h.signOut)
}

// signIn exchanges a token for the page's session cookie. Without authentication there is nothing
// to do.
func (h pageSessions) signIn(c echo.Context) error {
	by := access.PeerOf(c.Request(), c.RealIP())
	var body struct {
		Token string `json:"token"`
	}
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	if !h.auth.Required {
		expires := h.now().Add(access.SessionLifetime)
		return c.JSON(http.StatusOK, map[string]any{
			"owner": access.LocalOwner, "expires_at": expires.UTC().Truncate(time.Second),
		})
	}
	value, owner, expires, err := h.auth.SignIn(c.Request().Context(), by, body.Token)
	if err != nil {
		h.events.refused(c, "sign-in refused", err)
		return err
	}
	if _, err := h.auth.Sessions.SignOut(c.Request(), false); err != nil { // of the session before
		return err
	}
	h.events.note(caller{access.Identity{Owner: owner}, c}, "signed in")
	c.SetCookie(h.cookie(c.Request(), value, int(expires.Sub(h.now()).Seconds())))
	return c.JSON(http.StatusOK, map[string]any{"owner": owner, "expires_at": expires.UTC().Truncate(time.Second)})
}

// signOut ends the page's session, and with ?everywhere=true all sessions and client secrets of its
// owner. Without a session it does nothing.
func (h pageSessions) signOut(c echo.Context) error {
	everywhere, err := input.Bool(c, "everywhere")
	if err != nil {
		return err
	}
	owner, err := h.auth.Sessions.SignOut(c.Request(), everywhere)
	if err != nil {
		return err
	}
	if owner != "" {
		h.events.note(caller{access.Identity{Owner: owner}, c}, "signed out", "everywhere", everywhere)
	}
	c.SetCookie(h.cookie(c.Request(), "", -1))
	return c.NoContent(http.StatusNoContent)
}

// cookie makes a session cookie. Below a path it is sent to no other program of the host, whose cookie may have the
// same name.
func (h pageSessions) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: access.SessionCookie, Value: value, Path: cmp.Or(access.Prefix(r, h.TrustedProxies), "/"), MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: overTLS(r),
	}
}

// overTLS reports whether the page was loaded over HTTPS. Behind a proxy that terminates TLS, only
// the browser's Origin shows that.
func overTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	origin, err := url.Parse(r.Header.Get(echo.HeaderOrigin))
	return err == nil && origin.Scheme == "https"
}
