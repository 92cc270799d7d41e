package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// envelope is what both sides send.
type envelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	Timestamp time.Time       `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
}

// payload holds what this app reads of a payload.
type payload struct {
	CallID    string `json:"callId"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Code      string `json:"code"`
	Message   string `json:"message"`
}

// told holds what this app reads of the arguments of convo.* and tts.*.
type told struct {
	State string `json:"state"`
	Role  string `json:"role"`
	Text  string `json:"text"`
}

// conduct says something on a socket, runs the tools that it is told to run, and speaks the answer.
func (a *app) conduct(ctx context.Context, say string) (err error) {
	header := http.Header{}
	if a.token != "" {
		header.Set("Authorization", "Bearer "+a.token)
	}
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(a.server, "http")+"/conductor?session_id="+a.session, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return err
	}
	if res.Body != nil {
		defer res.Body.Close()
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	if err := a.send(ctx, conn, "transcript.final", object{"text": say}); err != nil {
		return err
	}
	for {
		var e envelope
		if err := wsjson.Read(ctx, conn, &e); err != nil {
			return err
		}
		var p payload
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return err
		}
		switch e.Type {
		case "error":
			return fmt.Errorf("%s: %s", p.Code, p.Message)
		case "tool.call":
			idle, err := a.run(ctx, conn, p)
			if err != nil {
				return err
			}
			if idle {
				return conn.Close(websocket.StatusNormalClosure, "")
			}
		}
	}
}

// run carries out a call. Those of convo and tts only tell the app what to show and to speak; all others are the model's,
// which waits for the result. idle means that the turn is over.
func (a *app) run(ctx context.Context, conn *websocket.Conn, p payload) (idle bool, err error) {
	var t told
	switch p.Name {
	case "convo.setState", "convo.appendMessage", "tts.speak":
		if err := json.Unmarshal([]byte(p.Arguments), &t); err != nil {
			return false, err
		}
	}
	switch p.Name {
	case "convo.setState":
		return t.State == "idle", nil
	case "convo.appendMessage":
		fmt.Fprintf(a.out, "%s: %s\n", map[string]string{"user": "You", "assistant": "It"}[t.Role], t.Text)
		return false, nil
	case "tts.speak":
		return false, a.speak(ctx, t.Text)
	}
	result := object{"callId": p.CallID}
	output, failed := find(p.Arguments)
	if result["result"] = output; failed != nil {
		output = "Error: " + failed.Error()
		result = object{"callId": p.CallID, "error": failed.Error()}
	}
	fmt.Fprintf(a.out, "(it used %s: %s)\n", p.Name, output)
	return false, a.send(ctx, conn, "tool.result", result)
}

// speak speaks a text.
func (a *app) speak(ctx context.Context, text string) error {
	if a.voice == "" {
		fmt.Fprintf(a.out, "(spoken: %s)\n", text)
		return nil
	}
	return exec.CommandContext(ctx, a.voice, text).Run()
}

// send sends an envelope.
func (a *app) send(ctx context.Context, conn *websocket.Conn, kind string, p object) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return wsjson.Write(ctx, conn, envelope{ID: fmt.Sprint(time.Now().UnixNano()), Type: kind, SessionID: a.session, Timestamp: time.Now(), Payload: data})
}
