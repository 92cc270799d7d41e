package web

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

// socketDoor opens WebSockets: handshake, origin, limits.
type socketDoor struct {
	origins *access.Origins
	limit   *access.CountLimit
	auth    *access.Authenticator
	open    *socket.Set
	metrics *Metrics
	timing  socket.Timing
	log     *slog.Logger
}

// check rejects a request that is not a WebSocket handshake, or comes from a foreign page.
func (d *socketDoor) check(c echo.Context) error {
	if !c.IsWebSocket() {
		c.Response().Header().Set(echo.HeaderUpgrade, "websocket")
		return &problem.Error{
			Status: http.StatusUpgradeRequired, Code: "upgrade_required",
			Message: "This is a WebSocket: connect with ws:// or wss://.",
		}
	}
	return d.origins.CheckSocket(c.Request())
}

// enter takes one of the owner's sockets. The context ends with the server.
func (d *socketDoor) enter(c echo.Context) (ctx context.Context, leave func(), err error) {
	leaveLimit, ok := d.limit.Take(identity(c).Owner)
	if !ok {
		return nil, nil, problem.TooMany("too_many_sockets", "Too many sockets are open. Close one first.",
			problem.RetryFull)
	}
	ctx, leaveSet, ok := d.open.Enter(context.WithoutCancel(c.Request().Context()))
	if !ok {
		leaveLimit()
		return nil, nil, problem.ErrShuttingDown
	}
	return ctx, func() { leaveSet(); leaveLimit() }, nil
}

// upgrade turns the connection into a socket within the owner's limits and runs it until it ends.
// again says how a client reconnects.
func (d *socketDoor) upgrade(c echo.Context, again string, run func(context.Context, *socket.Socket) error) error {
	ctx, leave, err := d.enter(c)
	if err != nil {
		return err
	}
	defer leave()
	ctx, release := d.auth.Sessions.Hold(ctx, identity(c))
	defer release()
	conn, err := websocket.Accept(c.Response(), c.Request(),
		&websocket.AcceptOptions{OriginPatterns: d.origins.Patterns()})
	if err != nil {
		// Accept has already answered the client.
		d.log.Debug("socket refused", "error", err, "request_id", requestID(c))
		return nil
	}
	cause := run(ctx, socket.New(conn, d.timing, again))
	d.metrics.socketClosed(cause)
	d.log.Debug("socket closed", "path", c.Path(), "reason", cause, "request_id", requestID(c))
	return nil
}
