package web

import (
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/uistream"
)

// Our own headers of answers.
const (
	headerRequestID = "X-Request-Id"
	headerThreadID  = "X-Thread-Id"
)

func requestID(c echo.Context) string { return c.Response().Header().Get(headerRequestID) }

// maxLoggedPath limits what one request writes into the log, in bytes.
const maxLoggedPath = 256

// sharePath begins the paths of links.
const sharePath = "/s/"

// shortPath returns what the log has of a path: the token of a link opens a thread.
func shortPath(path string) string {
	if token, below := strings.CutPrefix(path, sharePath); below {
		_, rest, _ := strings.Cut(token, "/")
		return strings.TrimSuffix(sharePath+"…/"+rest, "/")
	}
	if len(path) <= maxLoggedPath {
		return path
	}
	return strings.ToValidUTF8(path[:maxLoggedPath], "") + "…"
}

// isStream reports whether the client wants a stream of events.
func isStream(c echo.Context) bool {
	if c.Request().Method == http.MethodGet && strings.HasSuffix(c.Path(), "/stream") {
		return true
	}
	for _, header := range c.Request().Header.Values(echo.HeaderAccept) {
		for accepted := range strings.SplitSeq(header, ",") {
			if t, _, err := mime.ParseMediaType(accepted); err == nil && t == uistream.MediaType {
				return true
			}
		}
	}
	return false
}

const (
	// bodyTimeout is how long a client may take to send a body of at most input.MaxBody.
	bodyTimeout = 15 * time.Second
	// slowestBody is how fast a client must at least send what routes for large bodies take beyond
	// that, in bytes per second: an image of the largest size may take a minute and a half.
	slowestBody = 128 << 10
)

// timeToArrive is how much longer a body of a size may take than one of input.MaxBody.
func timeToArrive(size int64) time.Duration {
	return time.Duration((size-input.MaxBody)/slowestBody) * time.Second
}

// answerTimeout limits how long answering and reading a request may take unless it is a socket, so
// that a client that stops reading holds nothing.
const answerTimeout = 2 * time.Minute

// waitLong removes the deadline of an answer that a model is still making.
func waitLong(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Time{})
}

// answerSoon sets the deadline again: the client has to read the answer until then.
func answerSoon(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(answerTimeout))
}

// caller is who has sent a request.
type caller struct {
	access.Identity

	c echo.Context
}

const identityKey = "identity"

// identity returns the identity of an authenticated request. It panics on a route without
// authentication, which is a bug.
func identity(c echo.Context) access.Identity {
	who, ok := c.Get(identityKey).(access.Identity)
	if !ok {
		panic(fmt.Sprintf("route %s has no authentication", c.Path()))
	}
	return who
}

// securityLog logs sign-ins, refusals, revocations and deletions. It never contains tokens.
type securityLog struct{ log *slog.Logger }

// note logs what somebody did.
func (l securityLog) note(who caller, event string, attributes ...any) {
	l.log.With("event", event, "owner", who.Owner, "ip", who.c.RealIP(), "request_id", requestID(who.c)).
		Info("security event", attributes...)
}

// refused logs why somebody was refused.
func (l securityLog) refused(c echo.Context, event string, err error) {
	l.log.Warn("security event", "event", event, "reason", realtime.MaskKeys(err.Error()), "ip", c.RealIP(),
		"request_id", requestID(c))
}

// before makes a middleware of a check, whose error answers the request.
func before(check func(echo.Context) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := check(c); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// Limits on ids in requests, in bytes.
const (
	maxThreadID = 64
	maxCallID   = 128
)

// threadOf returns the key of the thread in the path for the request's owner. An impossible id is a 404 like any
// unknown one.
func threadOf(c echo.Context, noThread error) (thread.Key, error) {
	key := thread.Key{Owner: identity(c).Owner, Thread: c.Param("id")}
	if !input.ValidID(key.Thread, maxThreadID) {
		return key, noThread
	}
	return key, nil
}

// onThread serves with the key of the thread in the path.
func onThread(serve func(echo.Context, thread.Key) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := threadOf(c, errNoThread)
		if err != nil {
			return err
		}
		return serve(c, key)
	}
}

var errNoThread = problem.NotFound("thread_not_found", "There is no such thread.")

// orThread replaces a not-found error by one about the thread.
func orThread(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoThread
	}
	return err
}

// takes reports whether a client takes a content coding and does not refuse it by q=0 (RFC 9110, section 12.5.3);
// unsaid is what holds of one that it does not name.
func takes(h http.Header, wanted string, unsaid bool) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(strings.ToLower(coding), ";")
		if strings.TrimSpace(name) != wanted {
			continue
		}
		_, q, _ := strings.Cut(params, "q=")
		weight, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return err != nil || weight > 0
	}
	return unsaid
}
