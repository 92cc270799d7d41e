package web

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/input"
	"voicebridge/web/problem"
	"voicebridge/web/socket"
)

// threadSockets serves the routes of the thread socket.
type threadSockets struct{ *api }

func (h threadSockets) routes(r router) {
	r.Echo.GET("/api/threads/:id/ws", onThread(h.watch), r.user)
	r.Echo.GET("/api/sessions/:id/ws", onThread(h.watch), r.user)
}

// maxSocketRead limits one message to a thread socket, in bytes.
const maxSocketRead = 4 << 10

// Types of messages to a thread socket. Keep-alives are ignored.
const (
	typeApprove   = "bridge.tool.approve"
	typeDeny      = "bridge.tool.deny"
	typePing      = "ping"
	typeKeepAlive = "keepalive"
)

type connectedData struct {
	SessionID    string         `json:"session_id"`
	QueueLength  int            `json:"queue_length"`
	QueueConfig  queue.Settings `json:"queue_config"`
	ServerMaxSeq int64          `json:"server_max_seq"`
	// CallID is the thread's live call, null if there is none.
	CallID *string `json:"call_id"`
	// Busy is set if a text turn is running on the thread.
	Busy bool `json:"busy"`
}

// watch upgrades to a socket with the thread's events. Without ?after it starts now: nothing newer
// than the greeting is missed.
func (h threadSockets) watch(c echo.Context, key thread.Key) error {
	after, err := input.Int(c, "after", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if err := h.door.check(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := h.Store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	watch := h.Store.Watch(key) // first listen, then read
	defer watch.Close()
	last, err := h.Store.LastSeq(ctx, key)
	if err != nil {
		return orThread(err)
	}
	if after < 0 {
		after = last
	}
	waiting, err := h.Queue.Length(ctx, key)
	if err != nil {
		return err
	}
	busy, err := h.Chat.Busy(ctx, key)
	if err != nil {
		return err
	}
	callID, err := h.Chat.LiveCall(ctx, key)
	if err != nil {
		return err
	}
	hello := connectedData{
		SessionID: key.Thread, QueueLength: waiting, QueueConfig: h.Queue.Settings(), ServerMaxSeq: last, Busy: busy,
	}
	if callID != "" {
		hello.CallID = &callID
	}
	return h.door.upgrade(c, "connect again with after=SEQ", func(ctx context.Context, k *socket.Socket) error {
		k.Limit = -1 // take rejects what is too large and goes on
		k.Take = func(kind websocket.MessageType, r io.Reader) error { return h.receive(ctx, k, key, kind, r) }
		return k.Run(ctx, func(ctx context.Context) error {
			return sendEvents(k, greeting(hello), watch.Events(ctx, after))
		})
	})
}

// greeting is the first event of a socket.
func greeting(hello any) []persistence.Event {
	return []persistence.Event{{Type: "connected", Data: toolkit.Encode(hello)}}
}

// sendEvents writes the first events and then those of the watch as they come. While a client is slow, these
// wait in the store.
func sendEvents(k *socket.Socket, first []persistence.Event, events iter.Seq2[persistence.Event, error]) error {
	for _, event := range first {
		if err := k.Write(event); err != nil {
			return err
		}
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		if event.Type == persistence.EventApprovalAnswered {
			continue // it is for who has asked
		}
		if err := k.Write(event); err != nil {
			return err
		}
	}
	return nil
}

// receive handles one message from a client. Problems with it are reported to the client; an error
// ends the socket.
func (h threadSockets) receive(
	ctx context.Context, k *socket.Socket, key thread.Key, kind websocket.MessageType, r io.Reader,
) error {
	message, err := io.ReadAll(io.LimitReader(r, maxSocketRead+1))
	if err != nil {
		return err
	}
	err = h.handle(ctx, key, kind, message)
	if err == nil {
		return nil
	}
	e := classify(err)
	if e.Status >= http.StatusInternalServerError {
		h.Logger.Error("message on the thread socket failed", "error", err, "thread_id", key.Thread)
	}
	return k.Write(persistence.Event{Type: "error", Data: toolkit.Encode(errorData{e.Code, e.Message})})
}

// errorData says what is wrong with a client's message.
type errorData struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// decisionBody is a user's decision on whether a tool may run.
type decisionBody struct {
	ToolCallID string `json:"tool_call_id"`
	Nonce      string `json:"nonce"`
}

func (h threadSockets) handle(ctx context.Context, key thread.Key, kind websocket.MessageType, message []byte) error {
	if len(message) > maxSocketRead {
		return problem.TooLarge("", fmt.Sprintf("The message is larger than %d bytes.", maxSocketRead))
	}
	if kind != websocket.MessageText {
		return problem.BadRequest("bad_envelope", "", "Messages are JSON in text frames.")
	}
	var in struct {
		Type string `json:"type"`
		decisionBody
		Data decisionBody `json:"data"`
	}
	if err := input.Part("message", message, &in); err != nil {
		return err
	}
	switch in.Type {
	case typePing, typeKeepAlive:
		return nil
	case typeApprove, typeDeny:
	default:
		return problem.BadRequest("unknown_type", "type",
			fmt.Sprintf("The server accepts no message of type %.50q, only %s and %s.", in.Type, typeApprove, typeDeny))
	}
	d := in.decisionBody
	if d == (decisionBody{}) {
		d = in.Data
	}
	if d.ToolCallID == "" || d.Nonce == "" {
		return problem.BadRequest("missing_value", "tool_call_id", "tool_call_id and nonce are required.")
	}
	return h.Chat.Decide(ctx, key, chat.Decision{
		ToolCallID: d.ToolCallID, Nonce: d.Nonce, Approved: in.Type == typeApprove, By: key.Owner,
	})
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
			first = append(first, persistence.Event{
				Type: "call_started", Data: toolkit.Encode(map[string]string{"thread_id": thread, "call_id": id}),
			})
		}
	}
	return h.door.upgrade(c, "connect again with after=SEQ", func(ctx context.Context, k *socket.Socket) error {
		k.Limit = maxSocketRead
		return k.Run(ctx, func(ctx context.Context) error {
			return sendEvents(k, first, watch.Events(ctx))
		})
	})
}
