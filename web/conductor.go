package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
)

// conductorStore is what the conductor needs of the store.
type conductorStore interface {
	TextSession(ctx context.Context, key persistence.Key) (persistence.TextSession, error)
}

// Types of envelopes.
const (
	typeTranscript = "transcript.final"
	typeToolResult = "tool.result"
	typeInterrupt  = "interrupt"

	typePartial  = "assistant.speech.partial"
	typeFinal    = "assistant.speech.final"
	typeToolCall = "tool.call"
	typeError    = "error"
)

const (
	// maxEnvelope is the size of one envelope from the app, in bytes: JSON may need
	// six bytes for one of a text.
	maxEnvelope = maxBody
	// maxUntold is how many turns may wait for an app that does not read.
	maxUntold = 4
	// toldPrefix begins the ids of calls that are told and not awaited.
	toldPrefix = "told-"
	// timestampLayout is RFC 3339 with milliseconds.
	timestampLayout = "2006-01-02T15:04:05.000Z07:00"
)

// envelope is what goes both ways.
type envelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	Timestamp string          `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
}

// textPayload is the payload of assistant.speech.partial and .final.
type textPayload struct {
	Text string `json:"text"`
}

// callPayload is the payload of tool.call.
type callPayload struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	// Arguments is JSON in a string.
	Arguments string `json:"arguments"`
}

type errorPayload struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// conduct opens the socket of an app that runs tools itself and speaks with its
// own voice.
func (s *Server) conduct(c echo.Context) error {
	id := c.QueryParam("session_id")
	if id == "" {
		return badRequest("missing_value", "session_id", "session_id is missing: it is the id of a thread.")
	}
	if !validID(id, maxThreadID) {
		return errNoThread
	}
	key := persistence.Key{Owner: caller(c).Owner, Thread: id}
	if err := s.checkSocket(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	session, err := s.store.TextSession(ctx, key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	tools, err := newAppTools(session, c.QueryParam("tools"))
	if err != nil {
		return err
	}
	return s.openSocket(c, key, "connect again", func(ctx context.Context, k *socket) error {
		return s.conductors.serve(ctx, &app{key: key, tools: tools, socket: k, server: s})
	})
}

// app is one connection of an app. Its socket reads in one goroutine and tells
// in another.
type app struct {
	key    persistence.Key
	tools  appTools
	socket *socket
	server *Server

	session *conductorSession
	end     context.CancelCauseFunc
	// told is closed when nothing more is told here.
	told chan struct{}
	// more is signalled when the session has another turn.
	more chan struct{}
}

// envelope makes an envelope.
func (a *app) envelope(kind string, payload any) envelope {
	data, err := json.Marshal(payload)
	if err != nil {
		a.server.log.Error("payload not encoded", "error", err, "type", kind) // of strings: it cannot be
	}
	return envelope{
		ID: newEnvelopeID(), Type: kind, SessionID: a.key.Thread,
		Timestamp: a.server.now().UTC().Format(timestampLayout), Payload: data,
	}
}

func newEnvelopeID() string { return uuid.Must(uuid.NewV7()).String() }

// refuse tells the app what is wrong.
func (a *app) refuse(err error) error {
	e := classify(err)
	if e.Status >= http.StatusInternalServerError && e.Status != http.StatusServiceUnavailable {
		a.server.log.Error("envelope failed", "error", err, "thread_id", a.key.Thread)
	}
	return a.socket.write(a.envelope(typeError, errorPayload{Code: e.Code, Message: e.Message}))
}

// take handles one envelope of the app. What is wrong with it is told to the
// app; an error ends the socket.
func (a *app) take(ctx context.Context, kind websocket.MessageType, message io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(message, maxEnvelope+1))
	if err != nil {
		return err
	}
	problem := a.handle(ctx, kind, data)
	if problem == nil {
		return nil
	}
	if err := a.refuse(problem); err != nil {
		return err
	}
	if !threadIsTaken(problem) || a.server.conductors.untold(a.session) > 0 {
		return nil
	}
	// The app may have begun to think by itself, and no turn will end that.
	return a.socket.write(a.state("idle"))
}

// threadIsTaken reports whether no turn could begin because another or a call
// has the thread.
func threadIsTaken(err error) bool {
	return errors.Is(err, chat.ErrBusy) || errors.Is(err, persistence.ErrBusy) || errors.Is(err, errCallLive)
}

func (a *app) handle(ctx context.Context, kind websocket.MessageType, data []byte) error {
	if len(data) > maxEnvelope {
		return tooLarge("", fmt.Sprintf("The envelope is larger than %d bytes.", maxEnvelope))
	}
	in, err := readEnvelope(kind, data)
	if err != nil {
		return err
	}
	if in.SessionID != "" && in.SessionID != a.key.Thread {
		return badRequest("wrong_session", "sessionId", "This connection is for another session: sessionId must be its session_id.")
	}
	switch in.Type {
	case typeTranscript:
		return a.transcript(ctx, in.Payload)
	case typeToolResult:
		return a.toolResult(in.Payload)
	case typeInterrupt:
		err := a.server.chat.Interrupt(ctx, a.key)
		if errors.Is(err, chat.ErrIdle) {
			return nil // the answer was complete already
		}
		return err
	}
	return badRequest("unknown_type", "type", fmt.Sprintf("There is no envelope of type %.50q for the server; there are %s, %s and %s.", in.Type, typeTranscript, typeToolResult, typeInterrupt))
}

// incoming is an envelope of the app. Its id and time are the app's own.
type incoming struct {
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	Payload   json.RawMessage `json:"payload"`
}

func readEnvelope(kind websocket.MessageType, data []byte) (incoming, error) {
	var in incoming
	if kind != websocket.MessageText {
		return in, badRequest("bad_envelope", "", "Envelopes are JSON in text frames.")
	}
	if err := decodePart("envelope", data, &in); err != nil {
		return in, err
	}
	if in.Type == "" {
		return in, badRequest("bad_envelope", "type", "The envelope has no type.")
	}
	return in, nil
}

// decodePart decodes an envelope or its payload.
func decodePart(what string, data []byte, dst any) error {
	if !utf8.Valid(data) || !isObject(data) {
		return badRequest("bad_envelope", what, fmt.Sprintf("The %s must be one JSON object in UTF-8.", what))
	}
	err := json.Unmarshal(data, dst)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badRequest("bad_envelope", e.Field, fmt.Sprintf("%s of the %s must be a %s, not a %s.", e.Field, what, jsonKind(e.Type.Kind().String()), e.Value))
	}
	if err != nil {
		return badRequest("bad_envelope", what, fmt.Sprintf("The %s is not valid JSON.", what))
	}
	return nil
}

// transcript begins a turn with what the user said.
func (a *app) transcript(ctx context.Context, payload json.RawMessage) error {
	var said textPayload
	if err := decodePart("payload", payload, &said); err != nil {
		return err
	}
	if strings.TrimSpace(said.Text) == "" {
		return badRequest("empty_message", "text", "The transcript is empty.")
	}
	if a.server.conductors.untold(a.session) >= maxUntold {
		return fmt.Errorf("begin turn: %w", chat.ErrBusy)
	}
	if err := a.server.refuseInCall(ctx, a.key); err != nil {
		return err
	}
	turn, err := a.server.chat.Turn(ctx, chat.TurnRequest{
		Key: a.key, Text: said.Text, System: a.tools.system, NoServerTools: true,
		Caller: &chat.CallerTools{Tools: a.tools.definitions, Wait: true},
	})
	if err != nil {
		return orThread(err)
	}
	a.server.conductors.add(a.session, a.newTurn(turn, said.Text))
	return nil
}

// toolResult hands the result of a call to the turn that waits for it. What an
// app answers to the calls that it is only told of is dropped.
func (a *app) toolResult(payload json.RawMessage) error {
	var in struct {
		CallID string          `json:"callId"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := decodePart("payload", payload, &in); err != nil {
		return err
	}
	if in.CallID == "" {
		return badRequest("bad_envelope", "callId", "callId is missing.")
	}
	result := chat.ToolResult{CallID: in.CallID, Output: string(in.Result), Error: errorWords(in.Error)}
	if result.Error == "" && result.Output == "" {
		result.Output = "null"
	}
	err := a.server.conductors.deliver(a.session, result)
	if errors.Is(err, chat.ErrUnknownCall) {
		if strings.HasPrefix(in.CallID, toldPrefix) {
			return nil
		}
		return badRequest("unknown_call", "callId", fmt.Sprintf("The tool call %.100q is not open: it was never asked, or it is not waited for any more.", in.CallID))
	}
	return err
}

// errorWords is the error of a tool result in words for the model: a text as it
// is, anything else as JSON; empty for none.
func errorWords(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil { // null is an empty text
		return text
	}
	return string(raw)
}
