package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"voicebridge/chat"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"

	"github.com/coder/websocket"
)

const (
	// maxEnvelope limits one envelope from the app, in bytes: JSON may need six bytes for one byte of
	// text.
	maxEnvelope = input.MaxBody
	// maxUndelivered limits the turns that wait for an app that does not read.
	maxUndelivered = 4
)

// app is one connection of an app. It reads in one goroutine and writes in another.
type app struct {
	envelopes
	connection

	key      thread.Key
	user     string // the user's name
	tools    Tools
	cfg      *Config
	sessions *sessions
	session  *session
}

// refuse tells the app what is wrong.
func (a *app) refuse(err error) error {
	e := a.cfg.Explain(err)
	if e.Status >= http.StatusInternalServerError && e.Status != http.StatusServiceUnavailable {
		a.cfg.Logger.Error("envelope failed", "error", err, "thread_id", a.key.Thread)
	}
	return a.socket.Write(a.envelope(typeError, errorPayload{Code: e.Code, Message: e.Message}))
}

// receive handles one envelope from the app. Problems with it are reported to the app; an error ends
// the socket.
func (a *app) receive(ctx context.Context, kind websocket.MessageType, message io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(message, maxEnvelope+1))
	if err != nil {
		return err
	}
	refused := a.handle(ctx, kind, data)
	if refused == nil {
		return nil
	}
	if err := a.refuse(refused); err != nil {
		return err
	}
	_, ofCall := errors.AsType[*chat.CallError](refused)
	if ofCall || !prevented(a.cfg.Explain(refused)) || a.sessions.undelivered(a.session) > 0 {
		return nil
	}
	// The app may have shown itself as thinking, and no turn will end that.
	return a.socket.Write(a.state("idle"))
}

// prevented reports whether no turn could begin although nothing is wrong with the envelope: another turn or a call
// has the thread, it was deleted, or a limit or a failure is in the way.
func prevented(e *problem.Error) bool {
	return e.Status != http.StatusBadRequest && e.Status != http.StatusRequestEntityTooLarge
}

func (a *app) handle(ctx context.Context, kind websocket.MessageType, data []byte) error {
	if len(data) > maxEnvelope {
		return problem.TooLarge("", fmt.Sprintf("The envelope is larger than %d bytes.", maxEnvelope))
	}
	in, err := readEnvelope(kind, data)
	if err != nil {
		return err
	}
	if in.SessionID != "" && in.SessionID != a.envelopes.session {
		return problem.BadRequest("wrong_session", "sessionId",
			"This connection is for another session: sessionId must be its session_id.")
	}
	switch in.Type {
	case typeTranscript:
		return a.transcript(ctx, in.Payload)
	case typeToolResult:
		return a.toolResult(ctx, in.Payload)
	case typeInterrupt:
		err := a.cfg.Chat.Interrupt(ctx, a.key)
		if errors.Is(err, chat.ErrIdle) {
			return nil // the answer was already complete
		}
		return err
	}
	return problem.BadRequest("unknown_type", "type", fmt.Sprintf("The server accepts no envelope of type %.50q, "+
		"only %s, %s and %s.", in.Type, typeTranscript, typeToolResult, typeInterrupt))
}

// incoming is an envelope from the app, with the app's own id and time.
type incoming struct {
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	Payload   json.RawMessage `json:"payload"`
}

func readEnvelope(kind websocket.MessageType, data []byte) (incoming, error) {
	var in incoming
	if kind != websocket.MessageText {
		return in, problem.BadRequest("bad_envelope", "", "Envelopes are JSON in text frames.")
	}
	if err := input.Part("envelope", data, &in); err != nil {
		return in, err
	}
	if in.Type == "" {
		return in, problem.BadRequest("bad_envelope", "type", "The envelope has no type.")
	}
	return in, nil
}

// transcript begins a turn with what the user said.
func (a *app) transcript(ctx context.Context, payload json.RawMessage) error {
	var transcript textPayload
	if err := input.Part("payload", payload, &transcript); err != nil {
		return err
	}
	if strings.TrimSpace(transcript.Text) == "" {
		return problem.BadRequest("empty_message", "text", "The transcript is empty.")
	}
	if a.sessions.undelivered(a.session) >= maxUndelivered {
		return fmt.Errorf("begin turn: %w", chat.ErrBusy)
	}
	if err := a.cfg.Admit(ctx, a.key.Owner); err != nil {
		return err
	}
	answer, err := a.cfg.Chat.Say(ctx, chat.TurnRequest{
		Key: a.key, User: a.user, Text: transcript.Text, System: a.tools.system, Spoken: true, NoServerTools: true,
		Client: &chat.ClientTools{Tools: a.tools.definitions, Wait: true},
	}, chat.Mode{ByText: true})
	if err != nil {
		return err
	}
	a.sessions.add(a.session, newTurn(answer.Turn(), a.state("thinking"), a.message("user", transcript.Text)))
	return nil
}

// toolResult passes the result of a call to the turn that waits for it, or keeps it for later turns if none does any
// more. Answers to calls that need none are dropped.
func (a *app) toolResult(ctx context.Context, payload json.RawMessage) error {
	var in struct {
		CallID string          `json:"callId"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := input.Part("payload", payload, &in); err != nil {
		return err
	}
	if in.CallID == "" {
		return problem.BadRequest("bad_envelope", "callId", "callId is missing.")
	}
	result := chat.ToolResult{CallID: in.CallID, Output: string(in.Result), Error: errorWords(in.Error)}
	if result.Error == "" && result.Output == "" {
		result.Output = "null"
	}
	if strings.HasPrefix(in.CallID, notePrefix) {
		return nil
	}
	err := a.sessions.deliver(a.session, result)
	if errors.Is(err, chat.ErrUnknownCall) {
		err = a.cfg.Chat.KeepResult(ctx, a.key, result)
	}
	if errors.Is(err, chat.ErrUnknownCall) {
		return problem.BadRequest("unknown_call", "callId",
			fmt.Sprintf("The tool call %.100q was never made.", in.CallID))
	}
	return err
}

// errorWords returns a tool result's error for the model: text as it is, anything else as JSON;
// empty for none.
func errorWords(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil { // null is an empty text
		return text
	}
	return string(raw)
}
