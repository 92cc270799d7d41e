package cascade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"voicebridge/bridge/internal/cascade"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/openai"
	"voicebridge/realtime"
	"voicebridge/realtime/served"
)

// wire is one of the vendors', with the recorded exchanges of its adapter: llmtest has all of them answer alike.
var wire = llmtest.Wire{Dir: "../../../llm/openai/testdata", New: func(t *testing.T, base string, client *http.Client) llm.Provider {
	t.Helper()
	p, err := openai.New(openai.Config{BaseURL: base, APIKey: llmtest.Key, HTTPClient: client, API: openai.ChatCompletions})
	testkit.Must(t, err)
	return p
}}

// said is what came of an answer.
type said struct {
	text, stop string
	calls      []served.Call
	usages     []map[string]any
	err        *realtime.Error
}

// hear reads an answer, until stop says so.
func hear(ctx context.Context, t *testing.T, m *cascade.Mind, r *served.Request, stop func(served.Piece) bool) (got said) {
	t.Helper()
	for p, err := range m.Answer(ctx, r) {
		if err != nil {
			if !errors.As(err, &got.err) {
				t.Errorf("Answer() = %v, want one for clients", err)
			}
			return got
		}
		got.text += p.Text
		got.stop += p.Stop
		if p.Call.ID != "" {
			got.calls = append(got.calls, p.Call)
		}
		if p.Usage != nil {
			got.usages = append(got.usages, p.Usage)
		}
		if p.Text != "" && p.Call.ID != "" {
			t.Errorf("a piece is of a text and of a call: %+v", p)
		}
		if stop != nil && stop(p) {
			break
		}
	}
	return got
}

// tokens is one of the numbers of a usage.
func tokens(u map[string]any, name string) int64 { n, _ := u[name].(int64); return n }

var greeting = &served.Request{Instructions: "Be brief.", Items: []served.Item{user("Hello")}}

// TestMindAnswers has an adapter's exchanges as answers.
func TestMindAnswers(t *testing.T) {
	t.Parallel()
	two := []string{`get_time {"zone":"Europe/Berlin"}`, `add {"a":12345678901234567890,"b":2}`}
	for exchange, want := range map[string]struct {
		text, stop, code string
		calls            []string
	}{
		"text":        {text: "Hello, wörld ☃"},
		"two_calls":   {calls: two},
		"split_calls": {text: "Let me look.", calls: two},
		"thoughts":    {text: "ok"},
		"length":      {text: "cut", stop: "max_output_tokens"},
		"filter":      {text: "I", stop: "content_filter"},
		"cut_text":    {text: "Hello,", code: "server_error unavailable"},
		"http_401":    {code: "authentication_error invalid_api_key"},
		"http_402":    {code: "insufficient_quota insufficient_quota"},
		"http_413":    {code: "invalid_request_error context_length_exceeded"},
		"http_429":    {code: "rate_limit_error rate_limit_exceeded"},
		"http_529":    {code: "server_error overloaded"},
	} {
		t.Run(exchange, func(t *testing.T) {
			t.Parallel()
			provider, sent, _ := wire.Replay(t, exchange)
			ask := llm.Ask{Provider: provider, Request: llm.Request{Model: "some-model"}, Attempts: 1}
			got := hear(t.Context(), t, cascade.NewMind(ask), greeting, nil)
			code := ""
			if got.err != nil {
				code = got.err.Type + " " + got.err.Code
			}
			if got.text != want.text || got.stop != want.stop || code != want.code || len(got.calls) != len(want.calls) {
				t.Fatalf("Answer() yields %+v, %v", got, got.err)
			}
			ids := map[string]bool{}
			for i, c := range got.calls {
				var compact bytes.Buffer
				testkit.Must(t, json.Compact(&compact, []byte(c.Arguments)))
				if c.Name+" "+compact.String() != want.calls[i] || len(c.ID) > 32 || ids[c.ID] {
					t.Errorf("call %d is %+v", i, c)
				}
				ids[c.ID] = true
			}
			if first := got.usages[0]; tokens(first, "input_tokens") < 2 || tokens(first, "output_tokens") != 0 {
				t.Errorf("at first, the usage is %v", first)
			}
			if last := got.usages[len(got.usages)-1]; exchange == "text" && (tokens(last, "input_tokens") != 12 || tokens(last, "output_tokens") != 5 || tokens(last, "total_tokens") != 17) {
				t.Errorf("in the end, the usage is %v", last)
			}
			if n := len(sent()); n != 1 {
				t.Errorf("the server saw %d requests", n)
			}
		})
	}
}

// TestMindEnds ends answers in their middle: the connection is closed, and what was written is counted.
func TestMindEnds(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{true, false} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			provider, _, gone := wire.Replay(t, "hang")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := hear(ctx, t, cascade.NewMind(llm.Ask{Provider: provider, Request: llm.Request{Model: "some-model"}}), greeting, func(p served.Piece) bool {
				if p.Text != "" && cancelled {
					cancel()
				}
				return p.Text != "" && !cancelled
			})
			testkit.Receive(t, "the client to leave", gone)
			if got.err != nil || got.text == "" || tokens(got.usages[len(got.usages)-1], "output_tokens") == 0 {
				t.Errorf("Answer() yields %+v, %v", got, got.err)
			}
		})
	}
}

// listener is a provider that keeps requests, and answers each as it is told.
type listener struct {
	accepts  llm.Accepts
	requests []llm.Request
	answer   func(n int, yield func(llm.Delta, error) bool)
}

func (*listener) Name() string { return "listener" }

func (l *listener) Accepts(string) llm.Accepts { return l.accepts }

func (l *listener) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		l.requests = append(l.requests, req)
		if l.answer == nil {
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
			return
		}
		l.answer(len(l.requests), yield)
	}
}

func message(role, words string) served.Item {
	return served.Item{ID: served.NewID("item_"), Type: realtime.ItemMessage, Role: role, Words: words}
}
func user(words string) served.Item  { return message("user", words) }
func voice(words string) served.Item { return message("assistant", words) }
func call(id string) served.Item {
	return served.Item{ID: served.NewID("item_"), Type: realtime.ItemFunctionCall, CallID: id, Name: "add", Arguments: "{}"}
}
func output(id string) served.Item {
	return served.Item{ID: served.NewID("item_"), Type: realtime.ItemFunctionCallOutput, CallID: id, Output: "out " + id}
}
func picture(urls ...string) served.Item {
	it := user("Look")
	for _, url := range urls {
		it.Content = append(it.Content, map[string]any{"type": "input_image", "image_url": url})
	}
	return it
}

// transcript writes down a request's messages.
func transcript(messages []llm.Message) string {
	var all []string
	for _, m := range messages {
		var line strings.Builder
		line.WriteString(string(m.Role))
		if m.Content != "" {
			line.WriteString(" " + strings.ReplaceAll(m.Content, "\n", " "))
		}
		for _, i := range m.Images {
			line.WriteString(" <" + i.MediaType + ">")
		}
		for _, c := range m.ToolCalls {
			line.WriteString(" " + c.Name + "#" + c.ID)
		}
		if m.ToolCallID != "" {
			line.WriteString(" #" + m.ToolCallID)
		}
		all = append(all, line.String())
	}
	return strings.Join(all, " | ")
}

// TestMindMessages makes messages of items, whatever their order and content.
func TestMindMessages(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	testkit.Must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 4))))
	dot := string(realtime.Encode(b.Bytes()))
	dot = "data:image/png;base64," + dot[1:len(dot)-1]
	odd := call("odd")
	odd.Name, odd.Arguments = "9 <b>", `{"half":`
	for name, c := range map[string]struct {
		items []served.Item
		want  string
	}{
		"talk":                {[]served.Item{message("system", "Be kind."), voice("Hi."), user("One"), user("Two"), voice("Three")}, "system Be kind. | assistant Hi. | user One | user Two | assistant Three"},
		"empty ones":          {[]served.Item{user(""), voice(" \n"), user("One")}, "user One"},
		"none":                {nil, ""},
		"one after the other": {[]served.Item{user("Add"), call("1"), output("1"), call("2"), output("2"), voice("Done.")}, "user Add | assistant add#1 | tool out 1 #1 | assistant add#2 | tool out 2 #2 | assistant Done."},
		"side by side":        {[]served.Item{user("Add"), voice("I add."), call("1"), call("2"), output("2"), output("1")}, "user Add | assistant I add. add#1 add#2 | tool out 1 #1 | tool out 2 #2"},
		"meanwhile":           {[]served.Item{user("Add"), call("1"), user("Hurry"), output("1")}, "user Add | assistant add#1 | tool out 1 #1 | user Hurry"},
		"without an output":   {[]served.Item{user("Add"), call("1"), user("Well?")}, "user Add | assistant add#1 | tool There is no result yet. #1 | user Well?"},
		"without a call":      {[]served.Item{user("Add"), output("1"), output("")}, "user Add"},
		"twice":               {[]served.Item{call("1"), output("1"), output("1"), call("1")}, "assistant add#1 | tool out 1 #1"},
		"odd names":           {[]served.Item{odd, output("odd")}, "assistant t_9__b__0cc31e2a#odd | tool out odd #odd"},
		"unknown":             {[]served.Item{{Type: "mcp_call", ID: "x", Name: "x"}, user("One")}, "user One"},
		"images":              {[]served.Item{picture(dot), picture()}, "user Look <image/png> | user Look"},
		"bad images":          {[]served.Item{picture("https://example.org/a.png", "data:image/png;base64,%%%", "data:image/png;base64,aGFsbG8=", "")}, "user " + strings.Repeat(llm.LostImage+" ", 4) + "Look"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &listener{}
			hear(t.Context(), t, cascade.NewMind(llm.Ask{Provider: p}), &served.Request{Items: c.items}, nil)
			if got := transcript(p.requests[0].Messages); got != c.want {
				t.Errorf("the model reads\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestMindRequest has what else a request consists of.
func TestMindRequest(t *testing.T) {
	t.Parallel()
	tools := []served.Tool{{Name: "add", Description: "Adds.", Parameters: map[string]any{"type": "object"}}, {Name: "ping"}}
	asked, answered := []served.Item{user("Add")}, []served.Item{user("Add"), call("1"), output("1")}
	function := map[string]any{"type": "function", "name": "ping"}
	for name, c := range map[string]struct {
		r     served.Request
		tools string
		must  bool
		max   int
	}{
		"no tools":      {r: served.Request{Items: asked}, max: 100},
		"a limit":       {r: served.Request{Items: asked, MaxTokens: 7}, max: 7},
		"auto":          {r: served.Request{Items: asked, Tools: tools, Choice: "auto"}, tools: "add ping", max: 100},
		"none":          {r: served.Request{Items: asked, Tools: tools, Choice: "none"}, max: 100},
		"required":      {r: served.Request{Items: asked, Tools: tools, Choice: "required"}, tools: "add ping", must: true, max: 100},
		"required then": {r: served.Request{Items: answered, Tools: tools, Choice: "required"}, tools: "add ping", max: 100},
		"a function":    {r: served.Request{Items: asked, Tools: tools, Choice: function}, tools: "ping", must: true, max: 100},
		"and then":      {r: served.Request{Items: answered, Tools: tools, Choice: function}, tools: "add ping", max: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &listener{}
			m := cascade.NewMind(llm.Ask{Provider: p, Request: llm.Request{Model: "m", MaxTokens: 100}})
			hear(t.Context(), t, m, &c.r, nil)
			var names []string
			for _, tool := range p.requests[0].Tools {
				names = append(names, tool.Name)
			}
			if req := p.requests[0]; strings.Join(names, " ") != c.tools || req.MustCall != c.must || req.MaxTokens != c.max || req.Model != "m" {
				t.Errorf("the request has the tools %v, %+v", names, req)
			}
		})
	}
	p := &listener{}
	m := cascade.NewMind(llm.Ask{Provider: p})
	for _, spoken := range []bool{true, false} {
		hear(t.Context(), t, m, &served.Request{Spoken: spoken, Instructions: "Say exactly this:\n\nHello", Items: asked, Tools: tools}, nil)
	}
	if s := p.requests[0].System; !strings.Contains(s, "read aloud") || !strings.HasSuffix(s, "\n\nSay exactly this:\n\nHello") {
		t.Errorf("for a voice, the model is told %q", s)
	}
	if s := p.requests[1].System; s != "Say exactly this:\n\nHello" {
		t.Errorf("without one, the model is told %q", s)
	}
	if tool := p.requests[0].Tools[0]; tool.Description != "Adds." || string(tool.Parameters) != `{"type":"object"}` {
		t.Errorf("the first tool is %+v", tool)
	}
}

// TestMindKeeps gives the provider back what it has sent with a call, and has an id of its own for each call.
func TestMindKeeps(t *testing.T) {
	t.Parallel()
	p := &listener{answer: func(n int, yield func(llm.Delta, error) bool) {
		for range 2 {
			c := &llm.ToolCall{ID: strings.Repeat("0", 100), Name: "look", Metadata: json.RawMessage(`{"thoughtSignature":"c2ln"}`)}
			if n > 1 || !yield(llm.Delta{Text: "I look.", Reasoning: "Hm.", ToolCall: c}, nil) {
				break
			}
		}
		yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
	}}
	m := cascade.NewMind(llm.Ask{Provider: p})
	got := hear(t.Context(), t, m, greeting, nil)
	if len(got.calls) != 2 || got.calls[0].ID == got.calls[1].ID || len(got.calls[0].ID) > 32 || got.calls[0].Arguments != "{}" || got.text != "I look.I look.ok" {
		t.Fatalf("Answer() yields %+v", got)
	}
	id := got.calls[0].ID
	hear(t.Context(), t, m, &served.Request{Items: []served.Item{user("Hello"), call(id), output(id)}}, nil)
	if c := p.requests[1].Messages[1].ToolCalls[0]; string(c.Metadata) != `{"thoughtSignature":"c2ln"}` {
		t.Errorf("the provider gets %+v back", c)
	}
}

// TestMindShortens leaves out the oldest part of a conversation that is too long, and from then on begins with the same
// item; what the user has said last stays.
func TestMindShortens(t *testing.T) {
	t.Parallel()
	items := []served.Item{message("system", "Be kind.")}
	for range 20 {
		items = append(items, user(strings.Repeat("long ", 100)), call(served.NewID("call_")), voice("Yes."))
	}
	items = append(items, user("Go"))
	tooLong := &llm.Error{Kind: llm.KindTooLong, Provider: "listener", Message: "too long"}
	refuse := &listener{answer: func(n int, yield func(llm.Delta, error) bool) {
		if n == 1 {
			yield(llm.Delta{}, tooLong)
			return
		}
		yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
	}}
	for name, p := range map[string]*listener{"refused": refuse, "known": {accepts: llm.Accepts{ContextTokens: 2000}}} {
		m := cascade.NewMind(llm.Ask{Provider: p})
		for range 2 {
			if got := hear(t.Context(), t, m, &served.Request{Items: items}, nil); got.text != "ok" {
				t.Errorf("%s: Answer() yields %+v, %v", name, got, got.err)
			}
		}
		last := p.requests[len(p.requests)-2:]
		a, b := transcript(last[0].Messages), transcript(last[1].Messages)
		if n := llm.Tokens(last[1].Messages...); a != b || n > 1000 || n < 400 || !strings.HasPrefix(a, "system Be kind. | user long ") || !strings.HasSuffix(a, " | user Go") {
			t.Errorf("%s: the model reads %d tokens, %.100s\nthen %.100s", name, n, a, b)
		}
	}
	never := &listener{answer: func(_ int, yield func(llm.Delta, error) bool) { yield(llm.Delta{}, tooLong) }}
	for _, items := range [][]served.Item{nil, {user("Go")}, {message("system", "Be kind."), user("Go")}} {
		never.requests = nil
		got := hear(t.Context(), t, cascade.NewMind(llm.Ask{Provider: never}), &served.Request{Items: items}, nil)
		if got.err == nil || got.err.Code != "context_length_exceeded" || len(never.requests) != 1 {
			t.Errorf("with %d items that must stay, Answer() yields %+v after %d requests", len(items), got.err, len(never.requests))
		}
	}
}

// TestMindRefused ends an answer to what the provider refuses as the filter does.
func TestMindRefused(t *testing.T) {
	t.Parallel()
	p := &listener{answer: func(_ int, yield func(llm.Delta, error) bool) {
		yield(llm.Delta{}, &llm.Error{Kind: llm.KindRefused, Provider: "listener"})
	}}
	if got := hear(t.Context(), t, cascade.NewMind(llm.Ask{Provider: p, Silence: time.Minute}), greeting, nil); got.stop != "content_filter" || got.err != nil {
		t.Errorf("Answer() yields %+v, %v", got, got.err)
	}
}

// TestMindSaysExactly says what it is told to without asking a model.
func TestMindSaysExactly(t *testing.T) {
	t.Parallel()
	provider := &listener{}
	mind := cascade.NewMind(llm.Ask{Provider: provider})
	for p, err := range mind.Answer(t.Context(), &served.Request{Instructions: realtime.SayExactly + "One moment."}) {
		if err != nil || p.Text != "One moment." {
			t.Errorf("Answer() yields %+v, %v", p, err)
		}
	}
	if len(provider.requests) > 0 {
		t.Errorf("the model was asked: %+v", provider.requests)
	}
}
