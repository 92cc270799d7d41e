package simulator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBehaviour is the part of the providers' suite that needs no network.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	llmtest.Behaviour(t, func(*testing.T) llm.Provider { return simulator.New(simulator.Config{}) })
}

// ask makes one request and returns the whole answer.
func ask(t *testing.T, req llm.Request) (text string, calls []llm.ToolCall, last llm.Delta, err error) {
	t.Helper()
	for d, e := range simulator.New(simulator.Config{TitlePrompt: "title", ShortTitlePrompt: "short title"}).Stream(t.Context(), req) {
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

// tools returns tools with the given names.
func tools(names ...string) []llm.Tool {
	all := make([]llm.Tool, len(names))
	for i, name := range names {
		all[i].Name = name
	}
	return all
}

func user(texts ...string) []llm.Message {
	var all []llm.Message
	for i, text := range texts {
		if i > 0 {
			all = append(all, llm.Message{Role: llm.RoleAssistant, Content: "ok"})
		}
		all = append(all, llm.Message{Role: llm.RoleUser, Content: text})
	}
	return all
}

func TestScript(t *testing.T) {
	t.Parallel()
	defs := tools("create_bar_chart", "create_pie_chart", "changeBrowserTheme", "files__read", "look")
	for _, c := range []struct {
		messages []llm.Message
		tools    []llm.Tool
		text     string // part of the text
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
		req := llm.Request{Messages: c.messages, Tools: c.tools}
		text, calls, last, err := ask(t, req)
		var names []string
		for _, call := range calls {
			names = append(names, call.Name)
		}
		wantStop := llm.StopEnd
		if len(calls) > 0 {
			wantStop = llm.StopToolCalls
		}
		if err != nil || !strings.Contains(text, c.text) || strings.Join(names, " ") != c.calls || last.Stop != wantStop || last.Usage == nil {
			t.Errorf("%v: %q, %v, %+v, %v", c.messages, text, names, last, err)
		}
		again, calls2, _, _ := ask(t, req)
		if again != text || !slices.EqualFunc(calls, calls2, func(a, b llm.ToolCall) bool { return a.ID == b.ID && a.Arguments == b.Arguments }) {
			t.Errorf("%v is answered differently the second time", c.messages)
		}
	}
}

// TestAfterTools reads tool results.
func TestAfterTools(t *testing.T) {
	t.Parallel()
	charts := tools("create_bar_chart", "create_pie_chart")
	messages := user("two charts, both as charts")
	_, calls, _, err := ask(t, llm.Request{Messages: messages, Tools: charts})
	if err != nil || len(calls) != 2 || calls[0].ID == calls[1].ID {
		t.Fatalf("calls %v, %v", calls, err)
	}
	messages = append(messages, llm.Message{Role: llm.RoleAssistant, ToolCalls: calls})
	for _, c := range calls {
		messages = append(messages, llm.Message{Role: llm.RoleTool, ToolCallID: c.ID, ToolName: c.Name, Content: `{"status":"success"}`})
	}
	if text, calls, _, err := ask(t, llm.Request{Messages: messages, Tools: charts}); err != nil || len(calls) != 0 || !strings.HasPrefix(text, "Here is your chart") {
		t.Errorf("after the tools: %q, %v, %v", text, calls, err)
	}
	asked := append(slices.Clone(messages), llm.Message{Role: llm.RoleSystem, Content: "Answer now."})
	if text, calls, _, err := ask(t, llm.Request{Messages: asked, Tools: charts}); err != nil || len(calls) != 0 || !strings.HasPrefix(text, "Here is your chart") {
		t.Errorf("after the tools and an instruction: %q, %v, %v", text, calls, err)
	}
	messages[len(messages)-1].Failed = true
	if text, _, _, _ := ask(t, llm.Request{Messages: messages}); !strings.Contains(text, "could not be made") {
		t.Errorf("after a failure: %q", text)
	}
}

func TestFailuresAndLimits(t *testing.T) {
	t.Parallel()
	_, _, _, err := ask(t, llm.Request{Messages: user("fail with quota")})
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindQuota {
		t.Errorf("error %v, want quota", err)
	}
	text, _, last, err := ask(t, llm.Request{Messages: user("a long story"), MaxTokens: 5})
	if err != nil || len(text) != 20 || last.Stop != llm.StopLength {
		t.Errorf("%q, %+v, %v", text, last, err)
	}
	text, _, _, _ = ask(t, llm.Request{System: "title", Messages: user("user: Where is the sea, please?\nassistant: There.\n")})
	testkit.Equal(t, text, "About: Where is the sea,", "title")
}

// TestPace interrupts an answer in the middle.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 105*time.Millisecond)
		defer cancel()
		words := 0
		var last error
		for d, err := range simulator.New(simulator.Config{Pace: 10 * time.Millisecond}).Stream(ctx, llm.Request{Messages: user("a long story")}) {
			if last = err; err == nil && d.Text != "" {
				words++
			}
		}
		if words != 10 || !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("%d words, then %v", words, last)
		}
	})
}
