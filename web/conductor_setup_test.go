package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
)

// The app's view of the envelopes.
const (
	notePrefix   = "told-"
	typePartial  = "assistant.speech.partial"
	typeFinal    = "assistant.speech.final"
	typeToolCall = "tool.call"
	typeError    = "error"

	typeTranscript = "transcript.final"
	typeToolResult = "tool.result"
	typeInterrupt  = "interrupt"
)

type envelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	Timestamp string          `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
}

type textPayload struct {
	Text string `json:"text"`
}

type callPayload struct {
	CallID    string `json:"callId"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// script is a provider with prepared answers: its n-th request gets the n-th answer, and
// all further requests get the last one.
type script struct {
	answers []scripted

	mu       sync.Mutex
	requests []llm.Request
}

// scripted is one answer; it yields deltas directly.
type scripted func(ctx context.Context, yield func(llm.Delta, error) bool)

func (s *script) Name() string { return "script" }

func (s *script) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		s.mu.Lock()
		answer := s.answers[min(len(s.requests), len(s.answers)-1)]
		s.requests = append(s.requests, req)
		s.mu.Unlock()
		answer(ctx, yield)
	}
}

// received returns the tool messages of the last request.
func (s *script) received() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, m := range s.requests[len(s.requests)-1].Messages {
		if m.Role == llm.RoleTool {
			lines = append(lines, m.ToolName+" "+m.ToolCallID+": "+m.Content)
		}
	}
	return strings.Join(lines, "\n")
}

func words(words ...string) scripted {
	return func(_ context.Context, yield func(llm.Delta, error) bool) {
		for _, w := range words {
			if !yield(llm.Delta{Text: w}, nil) {
				return
			}
		}
		yield(llm.Delta{Stop: llm.StopEnd}, nil)
	}
}

// toolCalls asks for tools; list is id, name, arguments of each in turn.
func toolCalls(text string, list ...string) scripted {
	return func(_ context.Context, yield func(llm.Delta, error) bool) {
		if text != "" && !yield(llm.Delta{Text: text}, nil) {
			return
		}
		for i := 0; i < len(list); i += 3 {
			if !yield(llm.Delta{ToolCall: &llm.ToolCall{ID: list[i], Name: list[i+1], Arguments: list[i+2]}}, nil) {
				return
			}
		}
		yield(llm.Delta{Stop: llm.StopToolCalls}, nil)
	}
}

func failure(text string, kind llm.ErrorKind) scripted {
	return func(_ context.Context, yield func(llm.Delta, error) bool) {
		if text != "" && !yield(llm.Delta{Text: text}, nil) {
			return
		}
		yield(llm.Delta{}, &llm.Error{Kind: kind, Provider: "script", Message: "No money is left."})
	}
}

// held says some words and then waits until it is cancelled or has more to say.
func held(text string, more <-chan struct{}) scripted {
	return func(ctx context.Context, yield func(llm.Delta, error) bool) {
		if text != "" && !yield(llm.Delta{Text: text}, nil) {
			return
		}
		select {
		case <-more:
			words(" More.")(ctx, yield)
		case <-ctx.Done():
			yield(llm.Delta{}, ctx.Err())
		}
	}
}

// stage is a server with a real coordinator over a scripted provider.
type stage struct {
	*bundle
	script  *script
	address string
	key     thread.Key
}

// newStage makes a stage with a text session that declares the tools look and act.
func newStage(t *testing.T, change func(*chat.Config), answers ...scripted) *stage {
	t.Helper()
	st := &stage{script: &script{answers: answers}}
	cfg := chat.Config{
		Providers: []llm.Provider{st.script}, NoTitles: true, Attempts: 1,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&cfg)
	}
	st.bundle = setupChat(t, cfg, nil)
	st.address, _ = st.run(t)
	st.key = st.session(t)
	return st
}

func (st *stage) session(t *testing.T) thread.Key {
	t.Helper()
	key := st.thread(t, access.LocalOwner)
	var tools []toolkit.Definition
	for _, name := range []string{"look", "act"} {
		tools = append(tools, toolkit.Definition{Name: name, Description: "a tool", Parameters: json.RawMessage(`{"type":"object"}`)})
	}
	data, err := json.Marshal(tools)
	must(t, err)
	must(t, st.db.Batch(t.Context(), key, func(b *persistence.Batch) error {
		return b.SaveTextSession(persistence.TextSession{Tools: string(data)})
	}))
	return key
}

// client is an app. A goroutine reads for it, as an app's own library would, so that pings
// are always answered.
type client struct {
	t      *testing.T
	conn   *websocket.Conn
	key    thread.Key
	frames chan frame
	ended  chan error // why reading ended
	ids    map[string]string
}

type frame struct {
	envelope
	text    string
	call    callPayload
	problem errorData
}

func (st *stage) connect(t *testing.T, key thread.Key, query string) *client {
	t.Helper()
	c := &client{
		t: t, key: key, conn: open(t, "ws://"+st.address+"/conductor?session_id="+key.Thread+query),
		frames: make(chan frame, 1000), ended: make(chan error, 1), ids: map[string]string{},
	}
	ctx, done := within(t), make(chan struct{})
	c.conn.SetReadLimit(-1)
	go func() {
		defer close(done)
		defer close(c.frames)
		for {
			_, data, err := c.conn.Read(ctx)
			if err != nil {
				c.ended <- err
				return
			}
			f, err := parseFrame(data, key)
			if err != nil {
				t.Error(err)
			}
			c.frames <- f
		}
	}()
	t.Cleanup(func() {
		_ = c.conn.CloseNow()
		<-done
	})
	return c
}

// parseFrame checks that a frame is an envelope as the contract describes it.
func parseFrame(data []byte, key thread.Key) (frame, error) {
	var f frame
	var fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &f.envelope), json.Unmarshal(data, &fields)); err != nil {
		return f, err
	}
	if _, err := time.Parse(time.RFC3339, f.Timestamp); err != nil || f.ID == "" || f.SessionID != key.Thread || len(fields) != 5 {
		return f, fmt.Errorf("envelope %s", data)
	}
	switch f.Type {
	case typePartial, typeFinal:
		var p textPayload
		if err := json.Unmarshal(f.Payload, &p); err != nil {
			return f, err
		}
		f.text = p.Text
		return f, nil
	case typeToolCall:
		err := json.Unmarshal(f.Payload, &f.call)
		if err == nil && (f.call.CallID == "" || !json.Valid([]byte(f.call.Arguments))) {
			err = fmt.Errorf("call %s", data)
		}
		return f, err
	case typeError:
		return f, json.Unmarshal(f.Payload, &f.problem)
	}
	return f, fmt.Errorf("type of %s", data)
}

// line is a frame in the form that tests compare.
func (f frame) line() string {
	switch f.Type {
	case typePartial:
		return fmt.Sprintf("partial %q", f.text)
	case typeFinal:
		return fmt.Sprintf("final %q", f.text)
	case typeError:
		return "error " + f.problem.Code
	}
	if strings.HasPrefix(f.call.CallID, notePrefix) {
		var a struct {
			State, Role, Text string
			IsPartial         *bool
		}
		_ = json.Unmarshal([]byte(f.call.Arguments), &a)
		switch f.call.Name {
		case "convo.setState":
			return "state " + a.State
		case "convo.appendMessage":
			if a.IsPartial != nil && !*a.IsPartial {
				return fmt.Sprintf("append %s %q", a.Role, a.Text)
			}
		case "tts.speak":
			return fmt.Sprintf("speak %q", a.Text)
		}
	}
	return fmt.Sprintf("call %s %s %s", f.call.CallID, f.call.Name, f.call.Arguments)
}

func (c *client) next() frame {
	c.t.Helper()
	select {
	case f, ok := <-c.frames:
		if !ok {
			c.t.Fatalf("the connection ended: %v", <-c.ended)
		}
		return f
	case <-within(c.t).Done():
		c.t.Fatal("nothing came")
	}
	return frame{}
}

// until reads up to the given line and returns all lines. Of consecutive partials it keeps
// the last: how many there are depends on timing.
func (c *client) until(line string) (lines []string, last frame) {
	c.t.Helper()
	for {
		f := c.next()
		if id, known := c.ids[f.line()]; f.Type != typePartial && !known {
			c.ids[f.line()] = f.ID
		} else if known && id == f.ID {
			c.t.Errorf("%s came twice with the id %s", f.line(), f.ID)
		}
		if n := len(lines); f.Type == typePartial && n > 0 && strings.HasPrefix(lines[n-1], "partial ") {
			before := strings.TrimSuffix(lines[n-1], `"`)
			if !strings.HasPrefix(f.line(), before) {
				c.t.Errorf("%s does not continue %s", f.line(), lines[n-1])
			}
			lines = lines[:n-1]
		}
		lines = append(lines, f.line())
		if f.line() == line {
			return lines, f
		}
	}
}

// want reads the given lines and nothing else.
func (c *client) want(want string) frame {
	c.t.Helper()
	wanted := strings.Split(strings.TrimSpace(want), "\n")
	for i := range wanted {
		wanted[i] = strings.TrimSpace(wanted[i])
	}
	got, last := c.until(wanted[len(wanted)-1])
	testkit.Equal(c.t, got, wanted, "got %s want %s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	return last
}

func (c *client) send(kind string, payload any) {
	c.t.Helper()
	data, err := json.Marshal(map[string]any{"id": "c", "type": kind, "sessionId": c.key.Thread, "timestamp": 1, "payload": payload})
	must(c.t, err)
	c.raw(websocket.MessageText, data)
}

func (c *client) raw(kind websocket.MessageType, data []byte) {
	c.t.Helper()
	must(c.t, c.conn.Write(within(c.t), kind, data))
}

func (c *client) say(text string) { c.send(typeTranscript, map[string]string{"text": text}) }

func (c *client) result(callID string, result any) {
	c.send(typeToolResult, map[string]any{"callId": callID, "result": result})
}

// sync returns when the server has handled everything sent before: it answers an envelope
// of an unknown type.
func (c *client) sync() {
	c.t.Helper()
	c.send("sync", map[string]any{})
	c.want("error unknown_type")
}

// answeredLines returns the frames of a turn that is answered with one text.
func answered(transcript, text string) string {
	return fmt.Sprintf("state thinking\nappend user %q\npartial %q\n%s", transcript, text, ending(text))
}

func ending(text string) string {
	return fmt.Sprintf("final %q\nappend assistant %q\nstate speaking\nspeak %q\nstate idle", text, text, text)
}

func (st *stage) saved(t *testing.T) (last thread.Message) {
	t.Helper()
	all, err := st.db.Messages(t.Context(), st.key, 0, 100)
	if err != nil || len(all) == 0 {
		t.Fatalf("Messages() = %d, %v", len(all), err)
	}
	return all[len(all)-1]
}
