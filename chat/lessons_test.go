package chat_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/toolkit"
)

// refusing is a provider that answers unless refuse returns why not.
func refusing(refuse func(llm.Request) *llm.Error) *fake {
	return &fake{name: "fake", answer: func(_ context.Context, _ int, req llm.Request, yield func(llm.Delta, error) bool) {
		if e := refuse(req); e != nil {
			yield(llm.Delta{}, e)
			return
		}
		yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
	}}
}

// TestRefusedParameters leaves out what a model refuses, and remembers it for other conversations.
func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	own := []toolkit.Definition{{Name: "own", Parameters: []byte(`{"type":"object"}`)}}
	bad := func(words string) *llm.Error {
		return &llm.Error{Kind: llm.KindBadRequest, Status: 400, Message: words}
	}
	for name, c := range map[string]struct {
		refuse   func(llm.Request) *llm.Error
		tools    []toolkit.Definition // of the client
		requests int                  // in the first turn; 0: it fails
		sends    string               // after that: temperature, top_p, number of tools
	}{
		"both": {func(r llm.Request) *llm.Error {
			switch {
			case r.Temperature != nil:
				return bad("Unsupported value: 'temperature' does not support 0.5 with this model.")
			case r.TopP != nil:
				return bad("Unsupported parameter: 'top_p' is not supported with this model.")
			}
			return nil
		}, nil, 3, "false false 1"},
		"one of them": {func(r llm.Request) *llm.Error {
			if r.Temperature != nil && r.TopP != nil {
				return bad("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
			}
			return nil
		}, nil, 2, "true false 1"},
		"tools": {func(r llm.Request) *llm.Error {
			if len(r.Tools) > 0 {
				return bad("Ollama does not accept the request: gemma does not support tools")
			}
			return nil
		}, nil, 2, "true true 0"},
		"tools that the client wants": {func(r llm.Request) *llm.Error {
			if len(r.Tools) > 0 {
				return bad("Ollama does not accept the request: gemma does not support tools")
			}
			return nil
		}, own, 0, "true true 2"},
		"the schema of a tool, by its name": {func(r llm.Request) *llm.Error {
			if len(r.Tools) > 0 && r.Tools[0].Name == "echo" {
				return bad("Invalid schema for function 'echo': In context=('properties', 'x'), array schema missing items.")
			}
			return nil
		}, nil, 2, "true true 0"},
		"the schema of a tool, by its number": {func(r llm.Request) *llm.Error {
			if len(r.Tools) > 0 && r.Tools[0].Name == "echo" {
				return bad("tools.0.custom.input_schema: JSON schema is invalid.")
			}
			return nil
		}, nil, 2, "true true 0"},
		"the schema of one of the client's": {func(r llm.Request) *llm.Error {
			if len(r.Tools) > 0 {
				return bad("* GenerateContentRequest.tools[0].function_declarations[0].parameters: missing field.")
			}
			return nil
		}, own, 0, "true true 2"},
		"something else": {func(llm.Request) *llm.Error { return bad("messages: at least one message is required") }, nil, 0, "true true 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := refusing(c.refuse)
			b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}),
				chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true, Attempts: 1})
			say := func() chat.Result {
				s, err := b.c.CreateSession(t.Context(), "anna", chat.SessionRequest{Defaults: []byte(`{"temperature":0.5,"top_p":0.9}`)})
				must(t, err)
				b.key.Thread = s.ID
				return b.wait(b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: c.tools}}))
			}
			if r := say(); (r.Err == nil) != (c.requests > 0) {
				t.Fatalf("the turn ends with %v", r.Err)
			}
			before := len(provider.seen())
			if before != max(c.requests, 1) {
				t.Errorf("%d requests, want %d", before, max(c.requests, 1))
			}
			say()
			requests := provider.seen()[before:]
			last := requests[len(requests)-1]
			if got := fmt.Sprint(last.Temperature != nil, last.TopP != nil, len(last.Tools)); got != c.sends || len(requests) != 1 {
				t.Errorf("the next conversation sends %s in %d requests, want %s", got, len(requests), c.sends)
			}
			// What a client asks for is never left out in silence.
			b.wait(b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: own}}))
			all := provider.seen()
			if sent := all[len(all)-1].Tools; len(sent) == 0 || sent[0].Name != "own" {
				t.Errorf("a client's tools are sent as %v", sent)
			}
		})
	}
}

// TestManyRefusedTools: servers name one tool that they refuse, or all. An MCP server may have more of them than a turn has
// requests: then the next turn goes on from there.
func TestManyRefusedTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		named    int // in one refusal
		failures int // turns
		requests int // in all
	}{
		"one by one": {1, 1, 16 + 6},
		"together":   {20, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var odd []toolkit.Tool
			for n := range 20 {
				odd = append(odd, tool{fmt.Sprintf("odd_%d", n), nil})
			}
			provider := refusing(func(r llm.Request) *llm.Error {
				var why strings.Builder
				for n := range min(len(r.Tools)-1, c.named) { // the first tool is echo
					fmt.Fprintf(&why, "* GenerateContentRequest.tools[0].function_declarations[%d].parameters: missing field.\n", n+1)
				}
				if why.Len() == 0 {
					return nil
				}
				return &llm.Error{Kind: llm.KindBadRequest, Status: 400, Message: "Google does not accept the request", Err: errors.New(why.String())}
			})
			b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}),
				chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, append([]toolkit.Tool{echo}, odd...)...), NoTitles: true})
			for turn := range c.failures + 1 {
				if r := b.say("Go"); (r.Err != nil) != (turn < c.failures) {
					t.Errorf("turn %d ends with %v", turn, r.Err)
				}
			}
			requests := provider.seen()
			if last := requests[len(requests)-1]; len(requests) != c.requests || len(last.Tools) != 1 {
				t.Errorf("%d requests, the last with %d tools, want %d and 1", len(requests), len(last.Tools), c.requests)
			}
		})
	}
}

// TestTooLongForTheModel leaves out the oldest turns when the model's context is smaller than the settings say, and
// asks for no more of that thread later.
func TestTooLongForTheModel(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		size := func(r llm.Request) (n int) {
			for _, m := range r.Messages {
				n += len(m.Content)
			}
			return n
		}
		provider := refusing(func(r llm.Request) *llm.Error {
			if size(r) > 3000 {
				return &llm.Error{Kind: llm.KindTooLong, Status: 400, Message: "The conversation is too long."}
			}
			return nil
		})
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, NoTitles: true})
		for n := range 12 {
			if r := b.wait(b.turn(chat.TurnRequest{Text: fmt.Sprintf("%d %s", n, strings.Repeat("words ", 100)), Instructions: instructionsFor(n)})); r.Err != nil {
				t.Fatalf("turn %d ends with %v", n, r.Err)
			}
		}
		last := provider.seen()[len(provider.seen())-1]
		if first := last.Messages[0]; first.Role != llm.RoleSystem || first.Content != "Be kind." {
			t.Errorf("the last request begins with %q", first.Content)
		}
		if text := talk(last.Messages); strings.Contains(text, "user: 0 ") || !strings.Contains(text, "user: 10 ") || !strings.Contains(text, "user: 11 ") {
			t.Errorf("the last request is\n%s", text)
		}
		before := len(provider.seen())
		b.say("And?")
		if n := len(provider.seen()) - before; n != 1 {
			t.Errorf("the next turn takes %d requests", n)
		}
		// What alone is too long stays so.
		before = len(provider.seen())
		if r := b.say(strings.Repeat("x", 4000)); r.Err == nil || r.Err.Kind != llm.KindTooLong {
			t.Errorf("a message that is too long ends with %v", r.Err)
		}
		if n := len(provider.seen()) - before; n > 6 {
			t.Errorf("a message that is too long takes %d requests", n)
		}
	})
}

// instructionsFor returns the instructions of the first turn.
func instructionsFor(turn int) []string {
	if turn > 0 {
		return nil
	}
	return []string{"Be kind."}
}

// TestTooLongAfterATool leaves out earlier turns when a tool's result is what no longer fits.
func TestTooLongAfterATool(t *testing.T) {
	t.Parallel()
	long := tool{"long", func(_ context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		yield(result(toolkit.Result{Output: []byte(`"` + strings.Repeat("x", 2000) + `"`)}), nil)
	}}
	provider := &fake{name: "fake"}
	provider.answer = func(_ context.Context, n int, req llm.Request, yield func(llm.Delta, error) bool) {
		text := talk(req.Messages)
		switch {
		case len(text) > 3000:
			yield(llm.Delta{}, &llm.Error{Kind: llm.KindTooLong, Status: 400, Message: "The conversation is too long."})
		case strings.Contains(text, "user: Go") && !strings.Contains(text, "tool: "):
			for _, d := range calls("a", "long", "{}") {
				yield(d, nil)
			}
		default:
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
		}
	}
	b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, long), NoTitles: true})
	b.say("one " + strings.Repeat("words ", 100))
	b.say("two " + strings.Repeat("words ", 100))
	if r := b.say("Go"); r.Err != nil || r.Text != "ok" {
		t.Fatalf("the turn ends with %q, %v", r.Text, r.Err)
	}
	last := talk(provider.seen()[len(provider.seen())-1].Messages)
	if strings.Contains(last, "user: one") || !strings.Contains(last, "user: Go") || !strings.Contains(last, "<- a long") {
		t.Errorf("the last request is\n%s", last)
	}
}

// TestResultTooLongForTheModel cuts a tool's result that the model's context cannot hold, and leaves the rest alone.
func TestResultTooLongForTheModel(t *testing.T) {
	t.Parallel()
	long := tool{"long", func(_ context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		yield(result(toolkit.Result{Output: []byte(`"` + strings.Repeat("x", 30_000) + `"`)}), nil)
	}}
	provider := &fake{name: "fake"}
	provider.answer = func(_ context.Context, _ int, req llm.Request, yield func(llm.Delta, error) bool) {
		text := talk(req.Messages)
		switch {
		case len(text) > 5000:
			yield(llm.Delta{}, &llm.Error{Kind: llm.KindTooLong, Status: 400, Message: "The conversation is too long."})
		case strings.HasSuffix(text, "user: Go\n"):
			for _, d := range calls("a", "long", "{}") {
				yield(d, nil)
			}
		default:
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
		}
	}
	b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, long), NoTitles: true})
	b.say("one")
	for _, words := range []string{"Go", "And?"} {
		if r := b.say(words); r.Err != nil || r.Text != "ok" {
			t.Fatalf("the turn %q ends with %q, %v", words, r.Text, r.Err)
		}
		last := talk(provider.seen()[len(provider.seen())-1].Messages)
		if !strings.Contains(last, "user: one\n") || !strings.Contains(last, "user: Go\n") || !strings.Contains(last, "xxx […] <- a long") {
			t.Errorf("the last request is\n%s", last)
		}
	}
}

// TestPictureForABlindModel: a picture that the model refuses fails the turn that shows it, but not those after it.
func TestPictureForABlindModel(t *testing.T) {
	t.Parallel()
	provider := refusing(func(r llm.Request) *llm.Error {
		if len(shown(r)) > 0 {
			return &llm.Error{Kind: llm.KindBadRequest, Status: 400, Message: "This model does not support images."}
		}
		return nil
	})
	b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}), chat.Config{Providers: []llm.Provider{provider}, NoTitles: true, Attempts: 1})
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pngOf(t, 3))
	picture := chat.TurnRequest{Text: "This?", Images: []chat.Image{{MediaType: "image/png", URL: url}}}
	if r := b.wait(b.turn(picture)); r.Err == nil {
		t.Errorf("a refused picture gives %q", r.Text)
	}
	for range 2 {
		if r := b.say("Never mind."); r.Err != nil {
			t.Errorf("the next turn ends with %v", r.Err)
		}
	}
	if n := len(provider.seen()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}
