package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"voicebridge/persistence/pictures"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

const apiCSP = "default-src 'none'; frame-ancestors 'none'"

// pipeline is what every request passes through, from outside to inside.
type pipeline struct {
	origins *access.Origins
	// proxies may say below which path clients reach this server.
	proxies []netip.Prefix
	// refuseForwarded rejects requests that came through a proxy: without authentication anyone
	// would be the one local user.
	refuseForwarded bool
	metrics         *Metrics
	errors          errorWriter
	// routeNames are the patterns of all routes, page those of the page's files.
	routeNames map[string]bool
	page       *page
	// bodyTimeout is how long a client may take to send a body, apart from the time for a large one.
	bodyTimeout time.Duration
	// unread ends in the last quarter of a shutdown, and with it the wait for clients that do not
	// read their answers.
	unread context.Context //nolint:containedctx // the server's, not a request's
	// trace is Config.Trace.
	trace func(context.Context, http.Header) context.Context
	log   *slog.Logger
}

func (p *pipeline) use(e *echo.Echo) {
	e.Pre(before(plainPath), before(resumeAddress))
	e.Use(
		p.recoverPanics,
		p.logRequests,
		before(responseHeaders),
		before(p.locateBelow),
		p.cors(), // before anything that refuses, so that pages can read why
		before(p.checkHost),
		before(func(c echo.Context) error { return p.origins.CheckCross(c.Request()) }),
		before(p.checkQuery),
		before(p.limitBody),
		before(p.readTrace),
		middleware.GzipWithConfig(middleware.GzipConfig{
			// The compressing writer holds back a WebSocket's 101, and proxies hold back the events
			// of a compressed stream, which useChat does not ask for by its Accept. A session
			// description is small, and a compressor has buffers of 800 KB. An image is compressed, and
			// parts of it are counted in bytes of what is not.
			Skipper: func(c echo.Context) bool {
				turn := c.Request().Method == http.MethodPost && c.Path() == "/api/threads/:id/messages"
				image := c.Path() == "/api/threads/:id/images/:image_id"
				call := strings.HasPrefix(c.Request().URL.Path, "/v1/realtime/calls")
				return c.IsWebSocket() || isStream(c) || turn || image || call || p.page.sendsBrotli(c) ||
					!takes(c.Request().Header, "gzip", true)
			},
			MinLength: 1024,
		}),
	)
}

// plainPath decodes what of a path need not have been encoded: unreserved characters (RFC 3986, section 6.2.2.2), so that
// an id is the same id in any form. Dots stay, as they could become steps.
func plainPath(c echo.Context) error {
	u := c.Request().URL
	if u.RawPath == "" {
		return nil
	}
	u.RawPath = encoded.ReplaceAllStringFunc(u.RawPath, func(code string) string {
		b, _ := strconv.ParseUint(code[1:], 16, 8) // it is two hexadecimal digits
		if strings.IndexByte(unreserved, byte(b)) < 0 {
			return code
		}
		return string(rune(b))
	})
	if u.RawPath == u.Path {
		u.RawPath = ""
	}
	return nil
}

var encoded = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~"

// readTrace makes the spans of a request part of the trace that its headers name.
func (p *pipeline) readTrace(c echo.Context) error {
	r := c.Request()
	c.SetRequest(r.WithContext(p.trace(r.Context(), r.Header)))
	return nil
}

// recoverPanics turns a panic into an error: one bad request must not end others' calls.
func (p *pipeline) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			if r == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				panic(r)
			}
			p.log.Error("handler panicked", "panic", fmt.Sprint(r), "path", shortPath(c.Request().URL.Path),
				"stack", string(debug.Stack()))
			err = errInternal
			p.errors.write(err, c)
		}()
		return next(c)
	}
}

// logRequests gives the request an id, counts it and logs it. It never logs the query, where some
// clients put secrets.
func (p *pipeline) logRequests(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := time.Now()
		c.Response().Header().Set(headerRequestID, uuid.NewString())
		rc := http.NewResponseController(c.Response())
		_ = rc.SetWriteDeadline(started.Add(answerTimeout)) // which does not hold for a socket once it is one
		stop := context.AfterFunc(p.unread, func() { _ = rc.SetWriteDeadline(time.Now()) })
		defer stop()
		err := next(c)
		if err != nil {
			// Here, so that the status is known. The handler writes at most once.
			c.Error(err)
		}
		took := time.Since(started)
		status, route := c.Response().Status, p.routeName(c)
		p.metrics.request(route, c.Request().Method, status)
		if !c.IsWebSocket() { // a socket takes as long as its client stays
			p.metrics.durations.WithLabelValues(route).Observe(took.Seconds())
		}
		p.log.Log(c.Request().Context(), requestLevel(route), "request",
			"method", c.Request().Method, "path", shortPath(c.Request().URL.Path), "route", route, "status", status,
			"bytes", c.Response().Size, "duration_ms", took.Milliseconds(), "ip", c.RealIP(),
			"request_id", requestID(c))
		return nil
	}
}

// routeName returns the route's pattern. All files of the page have one name, and so do paths
// without a route: for those, echo's path is what the client sent.
func (p *pipeline) routeName(c echo.Context) string {
	path := c.Path()
	switch {
	case !p.routeNames[path]:
		return "other"
	case p.page.has(strings.TrimPrefix(path, "/")):
		return "page"
	default:
		return path
	}
}

func requestLevel(route string) slog.Level {
	switch route {
	case "/healthz", "/readyz", "/metrics":
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

func responseHeaders(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderReferrerPolicy, "no-referrer")
	h.Set("Permissions-Policy", "microphone=(self), camera=(self), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set(echo.HeaderContentSecurityPolicy, apiCSP)
	h.Set(echo.HeaderCacheControl, "no-store")
	return nil
}

// locateBelow prepends to Location the path below which the client reaches this server.
func (p *pipeline) locateBelow(c echo.Context) error {
	prefix := access.Prefix(c.Request(), p.proxies)
	if prefix == "" {
		return nil
	}
	h := c.Response().Header()
	c.Response().Before(func() {
		if location := h.Get(echo.HeaderLocation); location != "" {
			h.Set(echo.HeaderLocation, prefix+location)
		}
	})
	return nil
}

func (p *pipeline) checkHost(c echo.Context) error {
	if name := access.ForwardedHeader(c.Request().Header); name != "" && p.refuseForwarded {
		return problem.Forbidden("proxy_without_authentication", "The header "+name+" shows that this request "+
			"came through a proxy, but this server has no authentication: set VOICEBRIDGE_API_TOKENS.")
	}
	return p.origins.CheckHost(c.Request())
}

// checkQuery rejects a query of which a part would be dropped, such as a search that would list everything.
func (p *pipeline) checkQuery(c echo.Context) error {
	page := p.page.has(cmp.Or(strings.TrimPrefix(c.Path(), "/"), indexFile)) // to which links add what they like
	if _, err := url.ParseQuery(c.Request().URL.RawQuery); err != nil && !page {
		return problem.BadRequest("invalid_query", "",
			"The query cannot be read: %, ; and other signs in values must be escaped.")
	}
	return nil
}

func (p *pipeline) cors() echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOriginFunc:  func(origin string) (bool, error) { return p.origins.Allowed(origin), nil },
		AllowCredentials: true,
		AllowMethods: []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete,
		},
		ExposeHeaders: []string{
			echo.HeaderLocation, headerThreadID, headerRequestID, echo.HeaderRetryAfter, echo.HeaderContentDisposition,
		},
		MaxAge: 600,
	})
}

// limitBody limits the body's size and how long it may take to arrive. The deadline stays until the
// handler has read the whole body, because the server itself reads on after a handler that did not.
// A ReadTimeout of the server would also end the contexts of longer requests.
func (p *pipeline) limitBody(c echo.Context) error {
	r := c.Request()
	if r.Body == http.NoBody {
		return nil
	}
	limit := int64(input.MaxBody)
	switch c.Path() {
	case "/api/threads/:id/messages":
		limit = maxChatBody
	case "/api/threads/:id/images":
		limit = pictures.MaxImageBytes + 1 // so that the handler sees that it is too large
	}
	// The handler of conversations gives those that are longer than one message more time.
	timeout := p.bodyTimeout + timeToArrive(min(limit, maxChatMessage))
	input.Arrives(c, timeout)
	r.Body = &limitedBody{http.MaxBytesReader(c.Response(), r.Body, limit), r.Body}
	return nil
}

// lingering is how much is still read, and dropped, of a body that is too large, in bytes: a client that goes on
// sending to a closed connection may not read why.
const lingering = 64 << 20

// limitedBody is a body within a limit.
type limitedBody struct {
	io.ReadCloser

	whole io.Reader
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		_, _ = io.CopyN(io.Discard, b.whole, lingering)
	}
	return n, err
}
