package web

import (
	"log/slog"

	"github.com/labstack/echo/v4"

	"voicebridge/realtime"
)

// securityLog notes who came in, was refused, revoked or deleted something. Tokens
// are never in it.
type securityLog struct{ log *slog.Logger }

// note writes an event of an owner.
func (l securityLog) note(c echo.Context, event, owner string, attributes ...any) {
	l.log.Info("security event", append([]any{"event", event, "owner", owner, "ip", c.RealIP(), "request_id", requestID(c)}, attributes...)...)
}

// refused writes why somebody did not come in.
func (l securityLog) refused(c echo.Context, event string, err error) {
	l.log.Warn("security event", "event", event, "reason", realtime.MaskKeys(err.Error()), "ip", c.RealIP(), "request_id", requestID(c))
}
