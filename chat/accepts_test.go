package chat_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
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

// limited is a provider whose model does not accept everything.
type limited struct {
	*fake

	accepts llm.Accepts
}

func (l limited) Accepts(string) llm.Accepts { return l.accepts }

// TestAccepts builds requests as the model accepts them. What a client asks for is never left out in silence.
func TestAccepts(t *testing.T) {
	t.Parallel()
	own := []toolkit.Definition{{Name: "own", Parameters: []byte(`{"type":"object"}`)}}
	for name, c := range map[string]struct {
		accepts llm.Accepts
		tools   []toolkit.Definition // of the client
		sends   string               // number of tools, of images, and all words
	}{
		"everything":                  {llm.Accepts{}, nil, "1 1 This?"},
		"no tools":                    {llm.Accepts{NoTools: true}, nil, "0 1 This?"},
		"no tools, but the client's":  {llm.Accepts{NoTools: true}, own, "2 1 This?"},
		"no images":                   {llm.Accepts{NoImages: true}, nil, "1 0 (An image that cannot be shown.)\nThis?"},
		"a short context, and it all": {llm.Accepts{ContextTokens: 10}, nil, "1 1 This?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := limited{deltas(says("ok")), c.accepts}
			b := start(t, persistencetest.SQLite(t),
				chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true, Attempts: 1, Context: noContext{}})
			b.say(strings.Repeat("words ", 100))
			url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pngOf(t, 3))
			b.wait(b.turn(chat.TurnRequest{Text: "This?", Images: []chat.Image{{MediaType: "image/png", URL: url}}, Client: &chat.ClientTools{Tools: c.tools}}))
			last := provider.seen()[1]
			testkit.Equal(t, fmt.Sprint(len(last.Tools), len(shown(last)), " ", last.Messages[len(last.Messages)-1].Content), c.sends, "the request")
			if n := len(last.Messages); (n == 1) != (c.accepts.ContextTokens > 0) {
				t.Errorf("the request has %d messages", n)
			}
		})
	}
}

// noContext precedes no text.
type noContext struct{}

func (noContext) Context(context.Context, chat.ContextInput) (string, error) { return "", nil }

// TestTooLongForTheModel leaves out the oldest turns, once, when the model's context is smaller than the settings say.
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
		b := start(t, open(t), asking(provider))
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
		testkit.Equal(t, len(provider.seen())-before, 2, "the next turn takes requests")
		// What alone is too long stays so.
		before = len(provider.seen())
		if r := b.say(strings.Repeat("x", 4000)); r.Err == nil || r.Err.Kind != llm.KindTooLong {
			t.Errorf("a message that is too long ends with %v", r.Err)
		}
		if n := len(provider.seen()) - before; n > 2 {
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
	b := start(t, persistencetest.SQLite(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, long), NoTitles: true})
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
	b := start(t, persistencetest.SQLite(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, long), NoTitles: true})
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

// TestWithoutWhatIsRefused: the answer's metadata say what the model has refused. It must not refuse what the request needs.
func TestWithoutWhatIsRefused(t *testing.T) {
	t.Parallel()
	own := []toolkit.Definition{{Name: "own", Parameters: []byte(`{"type":"object"}`)}}
	for _, tools := range [][]toolkit.Definition{nil, own} {
		provider := &fake{name: "fake", answer: func(_ context.Context, _ int, req llm.Request, yield func(llm.Delta, error) bool) {
			if req.NeedsTools != (tools != nil) {
				t.Errorf("with %d tools of the client the request needs its tools: %t", len(tools), req.NeedsTools)
			}
			yield(llm.Delta{Text: "ok", Without: "tools", Stop: llm.StopEnd}, nil)
		}}
		b := start(t, persistencetest.SQLite(t), asking(provider))
		r := b.wait(b.turn(chat.TurnRequest{Text: "Go", Client: &chat.ClientTools{Tools: tools}}))
		testkit.Equal(t, string(r.Message.Metadata.Extra["without"]), `"tools"`, "the answer is without")
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
	b := start(t, persistencetest.SQLite(t), chat.Config{Providers: []llm.Provider{provider}, NoTitles: true, Attempts: 1})
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
	testkit.Equal(t, len(provider.seen()), 5, "requests")
}
