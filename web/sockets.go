package web

import (
	"context"
	"log/slog"
	"math"
	"net/http"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/input"
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
		return &problem.Error{Status: http.StatusUpgradeRequired, Code: "upgrade_required", Message: "This is a WebSocket: connect with ws:// or wss://."}
	}
	return d.origins.CheckSocket(c.Request())
}

// enter takes one of the owner's sockets. The context ends with the server.
func (d *socketDoor) enter(c echo.Context) (ctx context.Context, leave func(), err error) {
	leaveLimit, ok := d.limit.Take(identity(c).Owner)
	if !ok {
		return nil, nil, problem.TooMany("too_many_sockets", "Too many sockets are open. Close one first.", problem.RetryFull)
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
	conn, err := websocket.Accept(c.Response(), c.Request(), &websocket.AcceptOptions{OriginPatterns: d.origins.Patterns()})
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

// ownerSockets serves the socket with events of everything that the client owns: its threads, their
// calls and their turns.
type ownerSockets struct{ *api }

func (h ownerSockets) routes(r router) { r.Echo.GET("/api/ws", h.watch, r.user) }

// ownerConnected is the data of the owner's first event.
type ownerConnected struct {
	Owner string `json:"owner"`
	// ServerMaxSeq is the number of the last event.
	ServerMaxSeq int64 `json:"server_max_seq"`
	// Missed is set if not all that came after the client's number follows.
	Missed bool `json:"missed,omitempty"`
}

// watch upgrades to a socket with the owner's events. Without ?after it starts now.
func (h ownerSockets) watch(c echo.Context) error {
	after, err := input.Int(c, "after", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if err := h.door.check(c); err != nil {
		return err
	}
	ctx, owner := c.Request().Context(), identity(c).Owner
	watch, err := h.Store.WatchOwner(ctx, owner, after) // first listen, then read
	if err != nil {
		return err
	}
	defer watch.Close()
	first := greeting(ownerConnected{owner, watch.Last, watch.Missed})
	if after < 0 || watch.Missed { // the beginnings of live calls were not heard
		calls, err := h.Store.Records.LiveCalls(ctx, owner)
		if err != nil {
			return err
		}
		for thread, id := range calls {
			first = append(first, persistence.Event{Type: "call_started", Data: toolkit.Encode(map[string]string{"thread_id": thread, "call_id": id})})
		}
	}
	return h.door.upgrade(c, "connect again with after=SEQ", func(ctx context.Context, k *socket.Socket) error {
		k.Limit = maxSocketRead
		return k.Run(ctx, func(ctx context.Context) error {
			return sendEvents(k, first, watch.Events(ctx))
		})
	})
}
