package web

import (
	"context"
	"encoding/json"
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
)

// watcher is what the thread socket needs of the store.
type watcher interface {
	Watch(key persistence.Key) *persistence.Watch
	Dropped() int64
}

// maxSocketRead is the size of one message to a thread socket, in bytes.
const maxSocketRead = 4 << 10

// Types of messages to a thread socket. Keep-alives are dropped.
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
	// CallID is the thread's live call, null when there is none.
	CallID *string `json:"call_id"`
	// Busy says that a text turn runs on the thread.
	Busy bool `json:"busy"`
}

// watchThread upgrades to a socket that tells the thread's events. Without
// ?after it begins now: nothing that is newer than the greeting is missed.
func (s *Server) watchThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	after, err := queryInt(c, "after", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if err := s.checkSocket(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	watch := s.store.Watch(key) // first listen, then read
	defer watch.Close()
	last, err := s.store.LastSeq(ctx, key)
	if err != nil {
		return orThread(err)
	}
	if after < 0 {
		after = last
	}
	waiting, err := s.queue.Length(ctx, key)
	if err != nil {
		return err
	}
	busy, err := s.chat.Busy(ctx, key)
	if err != nil {
		return err
	}
	hello := connectedData{SessionID: key.Thread, QueueLength: waiting, QueueConfig: s.queue.Settings(), ServerMaxSeq: last, Busy: busy}
	if id, ok := s.calls.Live(key.Owner, key.Thread); ok {
		hello.CallID = &id
	}
	return s.openSocket(c, key, "connect again with after=SEQ", func(ctx context.Context, k *socket) error {
		k.limit = -1 // take refuses what is too large and goes on
		k.take = func(kind websocket.MessageType, r io.Reader) error { return s.takeFromWatcher(ctx, k, key, kind, r) }
		return k.run(ctx, func(ctx context.Context) error { return k.tell(watch.Events(ctx, after), hello) })
	})
}

// tell writes the greeting and then the events as they come. The events wait in
// the store while a client is slow.
func (k *socket) tell(events iter.Seq2[persistence.Event, error], hello connectedData) error {
	data, err := json.Marshal(hello)
	if err != nil {
		return fmt.Errorf("encode greeting: %w", err)
	}
	if err := k.write(persistence.Event{Type: "connected", Data: data}); err != nil {
		return err
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		if err := k.write(event); err != nil {
			return err
		}
	}
	return nil
}

// takeFromWatcher handles one message of a client. What is wrong with it is told
// to the client; an error ends the socket.
func (s *Server) takeFromWatcher(ctx context.Context, k *socket, key persistence.Key, kind websocket.MessageType, r io.Reader) error {
	message, err := io.ReadAll(io.LimitReader(r, maxSocketRead+1))
	if err != nil {
		return err
	}
	err = s.handleWatcher(ctx, key, kind, message)
	if err == nil {
		return nil
	}
	e := classify(err)
	if e.Status >= http.StatusInternalServerError {
		s.log.Error("message on the thread socket failed", "error", err, "thread_id", key.Thread)
	}
	data, err := json.Marshal(errorPayload{Code: e.Code, Message: e.Message})
	if err != nil {
		return fmt.Errorf("encode error: %w", err)
	}
	return k.write(persistence.Event{Type: typeError, Data: data})
}

// decisionBody is a user's answer to the question whether a tool may run.
type decisionBody struct {
	ToolCallID string `json:"tool_call_id"`
	Nonce      string `json:"nonce"`
}

func (s *Server) handleWatcher(ctx context.Context, key persistence.Key, kind websocket.MessageType, message []byte) error {
	if len(message) > maxSocketRead {
		return tooLarge("", fmt.Sprintf("The message is larger than %d bytes.", maxSocketRead))
	}
	if kind != websocket.MessageText {
		return badRequest("bad_envelope", "", "Messages are JSON in text frames.")
	}
	var in struct {
		Type string `json:"type"`
		decisionBody
		Data decisionBody `json:"data"`
	}
	if err := decodePart("message", message, &in); err != nil {
		return err
	}
	switch in.Type {
	case typePing, typeKeepAlive:
		return nil
	case typeApprove, typeDeny:
	default:
		return badRequest("unknown_type", "type", fmt.Sprintf("There is no message of type %.50q for the server; there are %s and %s.", in.Type, typeApprove, typeDeny))
	}
	d := in.decisionBody
	if d == (decisionBody{}) {
		d = in.Data
	}
	if d.ToolCallID == "" || d.Nonce == "" {
		return badRequest("missing_value", "tool_call_id", "tool_call_id and nonce are needed.")
	}
	return s.chat.Decide(ctx, key, chat.Decision{ToolCallID: d.ToolCallID, Nonce: d.Nonce, Approved: in.Type == typeApprove, By: key.Owner})
}
