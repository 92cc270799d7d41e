package web

import (
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/web/input"
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
