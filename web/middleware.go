package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// answerTimeout bounds how long a request that is not a socket may take to be
// answered and read, so that a client that stops reading holds nothing.
const answerTimeout = 2 * time.Minute

// pageCSP lets the page run its own scripts and talk to its own server, and
// nothing else. Styles may be inline: the charts set style attributes.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self' ws: wss:; " +
	"img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self'; font-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// workerFolder holds the page's worker scripts. A worker has the policy of its own
// script, not the page's, and these run programs that a model wrote: no request
// reaches anything, neither our API with the user's cookie nor another place, and
// the origin is nobody's, with no storage and no cookies. That of Python may load
// Python itself.
const workerFolder = "worker/"

const workerCSP = "default-src 'none'; script-src 'wasm-unsafe-eval'; sandbox allow-scripts"

// policyOf is the content security policy of a file of the page.
func (s *Server) policyOf(name, host string) string {
	switch {
	case !strings.HasPrefix(name, workerFolder):
		return pageCSP
	case name == workerFolder+"python.js" && s.cfg.Pyodide.Offered():
		from := s.cfg.Pyodide.sources(host, s.cfg.AllowedOrigins)
		return "default-src 'none'; script-src 'wasm-unsafe-eval' " + from + "; connect-src " + from + "; sandbox allow-scripts"
	default:
		return workerCSP
	}
}

const apiCSP = "default-src 'none'; frame-ancestors 'none'"

func (s *Server) use() {
	s.echo.Use(
		s.recoverPanics,
		s.logRequests,
		responseHeaders,
		s.checkHost,
		s.cors(),
		s.checkCrossOrigin,
		s.limitBody,
		middleware.GzipWithConfig(middleware.GzipConfig{
			// The compressing writer holds back the 101 of a WebSocket, and proxies hold
			// back the events of a compressed stream. Pyodide's files are large and mostly
			// compressed already.
			Skipper: func(c echo.Context) bool {
				return c.IsWebSocket() || isStream(c) || strings.HasPrefix(c.Request().URL.Path, pyodidePath)
			},
			MinLength: 1024,
		}),
	)
}

// recoverPanics turns a panic into an error: one bad request must not end the
// calls of others.
func (s *Server) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			if r == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too
				panic(r)
			}
			s.log.Error("handler panicked", "panic", fmt.Sprint(r), "path", c.Request().URL.Path, "stack", string(debug.Stack()))
			err = &apiError{Status: http.StatusInternalServerError, Code: "internal_error", Message: "Something went wrong in the server. Its log has the details."}
			s.writeError(err, c)
		}()
		return next(c)
	}
}

const headerRequestID = "X-Request-Id"

func requestID(c echo.Context) string { return c.Response().Header().Get(headerRequestID) }

// logRequests gives the request an id, counts it and logs it. The query is never
// logged: it is the place where other clients put secrets.
func (s *Server) logRequests(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := time.Now()
		c.Response().Header().Set(headerRequestID, uuid.NewString())
		if !c.IsWebSocket() {
			rc := http.NewResponseController(c.Response())
			_ = rc.SetWriteDeadline(started.Add(answerTimeout))
		}
		err := next(c)
		if err != nil {
			// Here, so that the status is known; the handler writes at most once.
			c.Error(err)
		}
		took := time.Since(started)
		status, route := c.Response().Status, s.routeName(c)
		s.metrics.request(route, c.Request().Method, status, took)
		s.log.Log(c.Request().Context(), requestLevel(route), "request",
			"method", c.Request().Method, "path", c.Request().URL.Path, "route", route, "status", status,
			"bytes", c.Response().Size, "duration_ms", took.Milliseconds(), "ip", c.RealIP(), "request_id", requestID(c))
		return nil
	}
}

// routeName is the route's pattern. The page's files are one name, and so is
// what matches no route, for which echo's path is whatever a stranger asked for.
func (s *Server) routeName(c echo.Context) string {
	p := c.Path()
	switch {
	case !s.routeNames[p]:
		return "other"
	case s.page.has(strings.TrimPrefix(p, "/")):
		return "page"
	default:
		return p
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

func responseHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set(echo.HeaderXContentTypeOptions, "nosniff")
		h.Set(echo.HeaderReferrerPolicy, "no-referrer")
		h.Set("Permissions-Policy", "microphone=(self), camera=(), geolocation=()")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set(echo.HeaderContentSecurityPolicy, apiCSP)
		h.Set(echo.HeaderCacheControl, "no-store")
		return next(c)
	}
}

func (s *Server) checkHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.origins.checkHost(c.Request()); err != nil {
			return err
		}
		return next(c)
	}
}

func (s *Server) checkCrossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.origins.checkCross(c.Request()); err != nil {
			return err
		}
		return next(c)
	}
}

func (s *Server) cors() echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOriginFunc:  func(origin string) (bool, error) { return s.origins.isAllowed(origin), nil },
		AllowCredentials: true,
		AllowMethods:     []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete},
		ExposeHeaders:    []string{echo.HeaderLocation, headerThreadID, headerRequestID, echo.HeaderRetryAfter},
		MaxAge:           600,
	})
}

// limitBody bounds the body's size and the time it may take to come. The time
// limit stays until the handler has read the body to its end: the server itself
// reads on after a handler that did not. A ReadTimeout of the server would do the
// same but also end the contexts of requests that take longer.
func (s *Server) limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := c.Request(); r.Body != http.NoBody {
			rc := http.NewResponseController(c.Response())
			// Not every ResponseWriter of a test has deadlines.
			_ = rc.SetReadDeadline(time.Now().Add(s.bodyTimeout))
			r.Body = http.MaxBytesReader(c.Response(), r.Body, maxBody)
		}
		return next(c)
	}
}
