package web

import (
	"log/slog"

	"github.com/labstack/echo/v4"

	"voicebridge/realtime"
)

// securityLog logs sign-ins, refusals, revocations and deletions. It never contains tokens.
type securityLog struct{ log *slog.Logger }

// note logs an event of an owner.
func (l securityLog) note(c echo.Context, event, owner string, attributes ...any) {
	l.log.Info("security event", append([]any{"event", event, "owner", owner, "ip", c.RealIP(), "request_id", requestID(c)}, attributes...)...)
}

// refused logs why somebody was refused.
func (l securityLog) refused(c echo.Context, event string, err error) {
	l.log.Warn("security event", "event", event, "reason", realtime.MaskKeys(err.Error()), "ip", c.RealIP(), "request_id", requestID(c))
}
