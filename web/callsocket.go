package web

import (
	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/realtime/wsserver"
	"voicebridge/web/problem"
)

// callSockets serves calls whose events and sound go over a WebSocket.
type callSockets struct {
	calls *calls
	door  *socketDoor
}

func (h *callSockets) routes(r router) {
	r.Echo.GET("/v1/realtime", h.start, r.userOrSecret)
	r.Echo.GET("/v1/realtime/calls/:call_id/reconnect", h.reconnect, r.userOrSecret)
}

// start serves GET /v1/realtime of the Realtime API. The call is set up before the upgrade, so that a refusal is an answer
// with a status.
func (h *callSockets) start(c echo.Context) error {
	if err := h.door.check(c); err != nil {
		return err
	}
	switch {
	case c.QueryParam("intent") == "transcription":
		return problem.BadRequest("invalid_value", "intent", "Sessions that only transcribe are not served here.")
	case c.QueryParam("call_id") != "":
		return problem.BadRequest("invalid_value", "call_id", "A call has one connection. GET /v1/realtime/calls/{call_id}/reconnect replaces it.")
	}
	if err := h.calls.limits.SetUp(c.Request().Context(), c.RealIP()); err != nil {
		h.calls.metrics.refused(err)
		return err
	}
	return h.serve(c, func(client *wsserver.Conn) error {
		_, err := h.calls.setUp(c, bridge.Start{Socket: client})
		return err
	})
}

// reconnect gives a live call another connection, in place of the one that it has or had.
func (h *callSockets) reconnect(c echo.Context) error {
	if err := h.door.check(c); err != nil {
		return err
	}
	id, err := h.calls.callOf(c)
	if err != nil {
		return err
	}
	if err := h.calls.limits.SetUp(c.Request().Context(), c.RealIP()); err != nil {
		return err
	}
	return h.serve(c, func(client *wsserver.Conn) error {
		if err := h.calls.calls.ReconnectSocket(c.Request().Context(), identity(c).Owner, id, client); err != nil {
			return orCall(err)
		}
		return nil
	})
}

// serve upgrades a request once a call has taken its connection, and returns when that has ended.
func (h *callSockets) serve(c echo.Context, begin func(*wsserver.Conn) error) error {
	_, leave, err := h.door.enter(c) // it ends with the call, which ends before the server
	if err != nil {
		return err
	}
	defer leave()
	client := wsserver.New()
	if err := begin(client); err != nil {
		return err
	}
	conn, err := websocket.Accept(c.Response(), c.Request(), &websocket.AcceptOptions{
		OriginPatterns: h.door.origins.Patterns(), Subprotocols: []string{"realtime"}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		client.Abandon()
		// Accept has already answered the client.
		h.door.log.Debug("socket refused", "error", err, "request_id", requestID(c))
		return nil
	}
	client.Serve(conn)
	return nil
}
