package simulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/chat/simulator"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBehaviour is the part of the providers' suite that needs no wire.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	chattest.Behaviour(t, func(*testing.T) chat.Provider { return simulator.New(simulator.Config{}) })
}

// ask makes one request and puts the answer together.
func ask(t *testing.T, req chat.Request) (text string, calls []chat.ToolCall, last chat.Delta, err error) {
	t.Helper()
	for d, e := range simulator.New(simulator.Config{}).Stream(t.Context(), req) {
		if err = e; err != nil {
			return text, calls, last, err
		}
		text += d.Text
		if d.ToolCall != nil {
			calls = append(calls, *d.ToolCall)
		}
		last = d
	}
	return text, calls, last, nil
}

func registry(t *testing.T) *toolkit.Registry {
	t.Helper()
	r := toolkit.NewRegistry()
	for _, tool := range charts.Tools() {
		if err := r.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func user(texts ...string) []chat.Message {
	var all []chat.Message
	for i, text := range texts {
		if i > 0 {
			all = append(all, chat.Message{Role: chat.RoleAssistant, Content: "ok"})
		}
		all = append(all, chat.Message{Role: chat.RoleUser, Content: text})
	}
	return all
}

func TestScript(t *testing.T) {
	t.Parallel()
	r := registry(t)
	defs := append(r.Definitions(), toolkit.Definition{Name: "changeBrowserTheme"}, toolkit.Definition{Name: "files__read"}, toolkit.Definition{Name: "look"})
	for _, c := range []struct {
		messages []chat.Message
		tools    []toolkit.Definition
		text     string // a part of it
		calls    string
	}{
		{user("hello"), nil, "I am the simulator", ""},
		{user("please draw a chart"), defs, "Let me draw", "create_bar_chart"},
		{user("[CONTEXT: date and time: now]\n\ntwo charts, both of sales, charts please"), defs, "Let me draw", "create_bar_chart create_pie_chart"},
		{user("a pie"), defs, "", "create_pie_chart"},
		{user("a chart"), nil, "I have read your message", ""},
		{user("dark please"), defs, "", "changeBrowserTheme"},
		{user("ask the tool"), defs, "", "files__read"},
		{user(`call look {"a":"b"}`), defs, "", "look"},
		{user(`call files..read`), defs, "", "files__read"},
		{user(`call nothing`), defs, "I have read your message", ""},
		{user(`call look {broken}`), defs, "I have read your message", ""},
		{user("tell me a long story"), defs, "whole story", ""},
		{user("My dog is called Rex.", "[CONTEXT: x]\n\nWhat did I say?"), defs, "You said: My dog is called Rex.", ""},
		{user("do you remember?"), defs, "not said anything", ""},
		{nil, nil, "I understand", ""},
	} {
		req := chat.Request{Messages: c.messages, Tools: c.tools}
		text, calls, last, err := ask(t, req)
		var names []string
		for _, call := range calls {
			names = append(names, call.Name)
		}
		wantStop := chat.StopEnd
		if len(calls) > 0 {
			wantStop = chat.StopToolCalls
		}
		if err != nil || !strings.Contains(text, c.text) || strings.Join(names, " ") != c.calls || last.Stop != wantStop || last.Usage == nil {
			t.Errorf("%v: %q, %v, %+v, %v", c.messages, text, names, last, err)
		}
		again, calls2, _, _ := ask(t, req)
		if again != text || !slices.EqualFunc(calls, calls2, func(a, b chat.ToolCall) bool { return a.ID == b.ID && a.Arguments == b.Arguments }) {
			t.Errorf("%v is answered another way the second time", c.messages)
		}
	}
}

// TestCharts draws what the script asks for.
func TestCharts(t *testing.T) {
	t.Parallel()
	r := registry(t)
	router := toolkit.NewRouter(r, toolkit.RouterConfig{})
	messages := user("two charts, both as charts")
	_, calls, _, err := ask(t, chat.Request{Messages: messages, Tools: r.Definitions()})
	if err != nil || len(calls) != 2 || calls[0].ID == calls[1].ID {
		t.Fatalf("calls %v, %v", calls, err)
	}
	messages = append(messages, chat.Message{Role: chat.RoleAssistant, ToolCalls: calls})
	for _, c := range calls {
		result := toolkit.Drain(router.Call(t.Context(), toolkit.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments}), nil)
		if result.Failed() || !json.Valid(result.Output) {
			t.Errorf("%s: %s", c.Name, result.Error)
		}
		messages = append(messages, chat.Message{Role: chat.RoleTool, ToolCallID: c.ID, ToolName: c.Name, Content: result.ForModel()})
	}
	if text, calls, _, err := ask(t, chat.Request{Messages: messages, Tools: r.Definitions()}); err != nil || len(calls) != 0 || !strings.HasPrefix(text, "Here is your chart") {
		t.Errorf("after the tools: %q, %v, %v", text, calls, err)
	}
	messages[len(messages)-1].Failed = true
	if text, _, _, _ := ask(t, chat.Request{Messages: messages}); !strings.Contains(text, "could not be made") {
		t.Errorf("after a failure: %q", text)
	}
}

func TestFailuresAndLimits(t *testing.T) {
	t.Parallel()
	_, _, _, err := ask(t, chat.Request{Messages: user("fail with quota")})
	if e, ok := errors.AsType[*chat.Error](err); !ok || e.Kind != chat.KindQuota {
		t.Errorf("error %v, want quota", err)
	}
	text, _, last, err := ask(t, chat.Request{Messages: user("a long story"), MaxTokens: 5})
	if err != nil || len(text) != 20 || last.Stop != chat.StopLength {
		t.Errorf("%q, %+v, %v", text, last, err)
	}
	text, _, _, _ = ask(t, chat.Request{System: chat.TitleInstructions, Messages: user("user: Where is the sea, please?\nassistant: There.\n")})
	if text != "About: Where is the sea," {
		t.Errorf("title %q", text)
	}
}

// TestPace ends an answer in the middle.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 105*time.Millisecond)
		defer cancel()
		words := 0
		var last error
		for d, err := range simulator.New(simulator.Config{Pace: 10 * time.Millisecond}).Stream(ctx, chat.Request{Messages: user("a long story")}) {
			if last = err; err == nil && d.Text != "" {
				words++
			}
		}
		if words != 10 || !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("%d words, then %v", words, last)
		}
	})
}
