package web

import (
	"context"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/realtime/wsserver"
	"voicebridge/web/problem"
)

// callSockets serves calls whose events and sound go over a WebSocket.
type callSockets struct{ *api }

func (h callSockets) routes(r router) {
	r.Echo.GET("/v1/realtime", h.start, r.ofCall)
	r.Echo.GET("/v1/realtime/calls/:call_id/reconnect", h.reconnect, r.ofCall)
}

// start serves GET /v1/realtime of the Realtime API. The call is set up before the upgrade, so that a refusal is an
// answer with a status.
func (h callSockets) start(c echo.Context) error {
	if err := h.door.check(c); err != nil {
		return err
	}
	switch {
	case c.QueryParam("intent") == "transcription":
		return problem.Invalid("intent", "Sessions that only transcribe are not served here.")
	case c.QueryParam("call_id") != "":
		return h.join(c, c.QueryParam("call_id"))
	}
	if err := h.limits.SetUp(c.Request().Context(), c.RealIP()); err != nil {
		h.Metrics.refused(err)
		return err
	}
	return h.serve(c, wsserver.New(), func(client *wsserver.Conn) error {
		_, err := calls(h).setUp(c, bridge.Start{Socket: client, Server: identity(c).IsServer()})
		return err
	})
}

// errNoProgram is for who may not join a call beside its browser.
var errNoProgram = problem.Forbidden("token_required",
	"Only an API token or a JWT joins a running call: a client secret or a page's session does not.")

// join connects an application's server to a running call, beside its browser and without sound.
func (h callSockets) join(c echo.Context, id string) error {
	if !identity(c).IsProgram() {
		return errNoProgram
	}
	id, err := calls(h).callNamed(c, id)
	if err != nil {
		return err
	}
	return h.toCall(c, wsserver.NewSilent(), func(client *wsserver.Conn) error {
		threadID, err := h.Calls.JoinSideband(c.Request().Context(), identity(c).Owner, id, client,
			identity(c).IsServer())
		if err == nil {
			nameCall(c, id, threadID)
		}
		return err
	})
}

// reconnect gives a live call another connection, in place of the one that it has or had.
func (h callSockets) reconnect(c echo.Context) error {
	if err := h.door.check(c); err != nil {
		return err
	}
	id, err := calls(h).callOf(c)
	if err != nil {
		return err
	}
	return h.toCall(c, wsserver.New(), func(client *wsserver.Conn) error {
		return h.Calls.ReconnectSocket(c.Request().Context(), identity(c).Owner, id, client, identity(c).IsServer())
	})
}

// toCall connects a socket to a live call.
func (h callSockets) toCall(c echo.Context, client *wsserver.Conn, begin func(*wsserver.Conn) error) error {
	if err := h.limits.SetUp(c.Request().Context(), c.RealIP()); err != nil {
		return err
	}
	return h.serve(c, client, func(client *wsserver.Conn) error {
		if err := begin(client); err != nil {
			return orCall(err)
		}
		return nil
	})
}

// serve upgrades a request once a call has taken its connection, and returns when that has ended.
func (h callSockets) serve(c echo.Context, client *wsserver.Conn, begin func(*wsserver.Conn) error) error {
	ctx, leave, err := h.door.enter(c) // it ends with the call, which ends before the server
	if err != nil {
		return err
	}
	defer leave()
	client.Within(func(ctx context.Context, n int64) (release func(), err error) {
		return h.limits.Bodies.Take(ctx, identity(c).Owner, n)
	})
	if err := begin(client); err != nil {
		return err
	}
	conn, err := websocket.Accept(c.Response(), c.Request(), &websocket.AcceptOptions{
		OriginPatterns: h.door.origins.Patterns(), Subprotocols: []string{"realtime"},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		client.Abandon()
		// Accept has already answered the client.
		h.Logger.Debug("socket refused", "error", err, "request_id", requestID(c))
		return nil
	}
	if client.Silent() { // a call's own connection outlives the token that began the call
		ctx, release := h.door.auth.Sessions.Hold(ctx, identity(c))
		defer release()
		defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	}
	client.Serve(conn)
	return nil
}
