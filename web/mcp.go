package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
	"voicebridge/web/problem"
)

// ErrNoSignIn means that there is no such server of which each owner has one.
var ErrNoSignIn error = problem.NotFound("server_not_found",
	"There is no MCP server of that name of which each owner has one.")

// SignInFailed returns the error of a sign-in that failed, for a reason in words for the owner. Of a stranger, what
// came back belongs to no sign-in of this owner.
func SignInFailed(reason string, stranger bool) error {
	if stranger {
		return problem.BadRequest("unknown_sign_in", "state", sentence(reason))
	}
	return &problem.Error{Status: http.StatusBadGateway, Code: "sign_in_failed", Message: sentence(reason)}
}

// sentence makes a reason one.
func sentence(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:n]) + strings.TrimSuffix(text[n:], ".") + "."
}

// toolServers serves the routes about MCP servers.
type toolServers struct{ *api }

const callbackPath = "/api/mcp/callback"

func (h toolServers) routes(r router) {
	route(r, "GET /api/mcp", h.list)
	r.Echo.GET(callbackPath, h.finish)
	r.POST("/api/mcp/:name/connect", h.connect, r.user, r.text)
	r.DELETE("/api/mcp/:name", h.forget, r.user)
}

type serverAnswer struct {
	Name string `json:"name"`
	Type string `json:"type" openapi:"enum: [stdio, http, sse]"`
	// Auth is "oauth" if each owner signs in to it.
	Auth string `json:"auth,omitempty" openapi:"enum: [oauth]"`
	// PerOwner says whether each owner has a process of it.
	PerOwner bool `json:"per_owner"`
	// State is "idle" if it is started when it is needed, and "sign_in" if the caller has to sign in first.
	State string `json:"state" openapi:"enum: [connected, connecting, idle, sign_in, failed]"`
	// Reason says why it has failed.
	Reason string `json:"reason,omitempty"`
	// Tools is how many tools it offers.
	Tools int `json:"tools"`
}

type serverList struct {
	Servers []serverAnswer `json:"servers"`
}

// list returns the servers as this owner sees them.
func (h toolServers) list(ctx context.Context, who caller, _ none) (serverList, error) {
	all := serverList{[]serverAnswer{}}
	for _, s := range h.ToolServers.Of(ctx, who.Owner) {
		one := serverAnswer{
			Name: s.Name, Type: s.Type, PerOwner: s.PerOwner, State: s.State, Reason: s.Reason, Tools: s.Tools,
		}
		if s.SignIn {
			one.Auth = "oauth"
		}
		all.Servers = append(all.Servers, one)
	}
	return all, nil
}

// connect begins a sign-in of this owner.
func (h toolServers) connect(c echo.Context) error {
	server, err := h.named(c)
	if err != nil {
		return err
	}
	base := access.Base(c.Request(), h.TrustedProxies)
	to, browser, err := h.ToolServers.Connect(c.Request().Context(), identity(c).Owner, server, base+callbackPath)
	if err != nil {
		return err
	}
	c.SetCookie(h.cookie(c.Request(), server, browser, int(cookieLifetime.Seconds())))
	return c.JSON(http.StatusOK, map[string]string{"authorize_url": to})
}

// forget ends what this owner has of a server.
func (h toolServers) forget(c echo.Context) error {
	server, err := h.named(c)
	if err != nil {
		return err
	}
	had, err := h.ToolServers.Forget(c.Request().Context(), identity(c).Owner, server)
	if err != nil {
		return err
	}
	if had {
		h.events.note(caller{identity(c), c}, "MCP server forgotten", "server", server)
	}
	return c.NoContent(http.StatusNoContent)
}

// named returns the server that the path names.
func (h toolServers) named(c echo.Context) (string, error) {
	server := c.Param("name")
	if c.Request().URL.RawPath != "" { // then echo takes it as it was sent
		name, err := url.PathUnescape(server)
		if err != nil {
			return "", ErrNoSignIn
		}
		server = name
	}
	return server, nil
}

// cookieLifetime is that of the cookie, as long as a sign-in may take.
const cookieLifetime = 15 * time.Minute

// cookie is what binds a sign-in to the browser that has begun it: otherwise somebody could begin one, have another
// person agree to it, and use that person's account. The session's own cookie is not sent when another site sends the
// browser back.
func (h toolServers) cookie(r *http.Request, server, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(server), Value: value, Path: access.Prefix(r, h.TrustedProxies) + callbackPath, MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(access.Base(r, h.TrustedProxies), "https:"),
	}
}

func cookieName(server string) string {
	sum := sha256.Sum256([]byte(server))
	return "voicebridge_sign_in_" + hex.EncodeToString(sum[:8])
}

// finish ends a sign-in: its authorization server sends the browser here.
func (h toolServers) finish(c echo.Context) error {
	server, err := h.finished(c)
	if server != "" {
		c.SetCookie(h.cookie(c.Request(), server, "", -1))
	}
	if !strings.Contains(c.Request().Header.Get(echo.HeaderAccept), "text/html") {
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, map[string]string{"server": server, "state": "connected"})
	}
	view, status := signInView{Server: server, Back: access.Prefix(c.Request(), h.TrustedProxies) + "/"}, http.StatusOK
	if err != nil {
		e := classify(err)
		view.Problem, status = e.Message, e.Status
	}
	var page strings.Builder
	if err := signInPage.Execute(&page, view); err != nil {
		return err
	}
	return c.HTML(status, page.String())
}

func (h toolServers) finished(c echo.Context) (server string, err error) {
	r, q := c.Request(), c.QueryParams()
	back := SignInReturn{
		State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"),
		Description: q.Get("error_description"),
	}
	kept := func(server string) string {
		if cookie, err := r.Cookie(cookieName(server)); err == nil {
			return cookie.Value
		}
		return ""
	}
	var whose string
	mine := func(owner string) bool {
		whose = owner
		who, err := h.auth.Identify(r, access.PeerOf(r, c.RealIP()), false, "")
		return err == nil && who.Owner == owner
	}
	server, err = h.ToolServers.Finish(r.Context(), back, kept, mine)
	if err != nil {
		h.events.refused(c, "MCP sign-in failed", err)
		return server, err
	}
	h.events.note(caller{access.Identity{Owner: whose}, c}, "signed in to MCP server", "server", server)
	return server, nil
}

// signInView is what the page at the end of a sign-in says.
type signInView struct{ Server, Problem, Back string }

var signInPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>voicebridge</title>
{{if .Problem}}<h1>The sign-in failed</h1><p>{{.Problem}}</p>
{{else}}<h1>Signed in to {{.Server}}</h1><p>Its tools can be used now. You can close this window.</p>
{{end}}<p><a href="{{.Back}}">Back to voicebridge</a></p></html>
`))
