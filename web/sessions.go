package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
	"voicebridge/web/input"
)

// pageSessions answers the routes by which the page signs in and out.
type pageSessions struct {
	auth   *access.Authenticator
	limits *access.Allowances
	now    func() time.Time
}

func (h *pageSessions) routes(r router) {
	r.POST("/api/session", h.signIn)
	r.DELETE("/api/session", h.signOut)
}

// signIn exchanges a token for the page's session cookie.
func (h *pageSessions) signIn(c echo.Context) error {
	by := access.CallerOf(c.Request(), c.RealIP())
	var body struct {
		Token string `json:"token"`
	}
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	expires := h.now().Add(access.SessionLifetime)
	owner := access.LocalOwner
	if h.auth.Required {
		var until time.Time
		var err error
		if owner, until, err = h.auth.Owner(c.Request().Context(), by, body.Token); err != nil {
			return err
		}
		if !until.IsZero() && until.Before(expires) {
			expires = until
		}
	}
	if err := h.limits.SignIns.Take(by.Client); err != nil {
		return err
	}
	h.auth.Sessions.Remove(c.Request())
	value := h.auth.Sessions.Add(owner, expires)
	c.SetCookie(newSessionCookie(c.Request(), value, int(expires.Sub(h.now()).Seconds())))
	return c.JSON(http.StatusOK, map[string]any{"owner": owner, "expires_at": expires.UTC().Truncate(time.Second)})
}

// signOut ends the page's session. Without one it does nothing.
func (h *pageSessions) signOut(c echo.Context) error {
	h.auth.Sessions.Remove(c.Request())
	c.SetCookie(newSessionCookie(c.Request(), "", -1))
	return c.NoContent(http.StatusNoContent)
}

func newSessionCookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: access.SessionCookie, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: overTLS(r),
	}
}

// overTLS reports whether the page came by HTTPS. Behind a proxy that ends TLS
// only the browser's own Origin says so.
func overTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	origin, err := url.Parse(r.Header.Get(echo.HeaderOrigin))
	return err == nil && origin.Scheme == "https"
}
