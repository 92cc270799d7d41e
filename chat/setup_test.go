package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

var must = testkit.Must

func TestMain(m *testing.M) { persistencetest.Main(m) }

// fake is a provider that answers as a test says.
type fake struct {
	name string

	mu       sync.Mutex
	requests []llm.Request // except those for titles
	titles   []llm.Request
	// title answers requests for titles; empty means that they fail.
	title  string
	answer func(ctx context.Context, n int, req llm.Request, yield func(llm.Delta, error) bool)
}

func (f *fake) Name() string { return f.name }

func (f *fake) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		f.mu.Lock()
		if req.System == chat.TitleInstructions {
			f.titles = append(f.titles, req)
			title := f.title
			f.mu.Unlock()
			if title == "" {
				yield(llm.Delta{}, &llm.Error{Kind: llm.KindOverloaded, Message: "no titles"})
				return
			}
			yield(llm.Delta{Text: title, Stop: llm.StopEnd}, nil)
			return
		}
		n := len(f.requests)
		req.Messages = append([]llm.Message(nil), req.Messages...)
		f.requests = append(f.requests, req)
		answer := f.answer
		f.mu.Unlock()
		answer(ctx, n, req, yield)
	}
}

// seen returns the requests so far.
func (f *fake) seen() []llm.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// titled returns the requests for titles so far.
func (f *fake) titled() []llm.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.titles)
}

// deltas answers the n-th request with the n-th list, and all further ones with the last.
func deltas(lists ...[]llm.Delta) *fake {
	return &fake{name: "fake", answer: func(_ context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
		for _, d := range lists[min(n, len(lists)-1)] {
			if !yield(d, nil) {
				return
			}
		}
	}}
}

// says is an answer of words.
func says(words ...string) []llm.Delta {
	var list []llm.Delta
	for _, w := range words {
		list = append(list, llm.Delta{Text: w})
	}
	return append(list, llm.Delta{Stop: llm.StopEnd, Usage: &llm.Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 4, Raw: json.RawMessage(`{"in":10}`)}})
}

// calls is an answer that asks for tools; list is id, name, arguments of each in turn.
func calls(list ...string) []llm.Delta {
	var all []llm.Delta
	for i := 0; i < len(list); i += 3 {
		all = append(all, llm.Delta{ToolCall: &llm.ToolCall{ID: list[i], Name: list[i+1], Arguments: list[i+2]}})
	}
	return append(all, llm.Delta{Stop: llm.StopToolCalls, Usage: &llm.Usage{InputTokens: 5, OutputTokens: 1}})
}

// tool is a tool of the server.
type tool struct {
	name string
	run  func(ctx context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool)
}

func (t tool) Definition() toolkit.Definition {
	return toolkit.Definition{Name: t.name, Description: "a tool", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (t tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) { t.run(ctx, call, yield) }
}

func result(r toolkit.Result) toolkit.Chunk { return toolkit.Chunk{Result: &r} }

// echo returns its arguments.
var echo = tool{"echo", func(_ context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool) {
	if yield(toolkit.Chunk{Message: "half way", Percent: 50}, nil) {
		yield(result(toolkit.Result{Output: json.RawMessage(call.Arguments)}), nil)
	}
}}

// tools makes Config.Tools.
func tools(t testing.TB, list ...toolkit.Tool) func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
	t.Helper()
	r := toolkit.NewRegistry()
	for _, tool := range list {
		must(t, r.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
	}
	return func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) { return r, nil }
}

// bench is a coordinator on a store with a thread.
type bench struct {
	t     *testing.T
	store *persistence.Store
	c     *chat.Coordinator
	key   thread.Key
	stop  func()
}

// asking is a configuration with one provider, which is asked for answers only.
func asking(p llm.Provider) chat.Config {
	return chat.Config{Providers: []llm.Provider{p}, NoTitles: true}
}

// start runs a coordinator until the test ends.
func start(t *testing.T, store *persistence.Store, cfg chat.Config) *bench {
	t.Helper()
	cfg.Store = store
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	var endWriter func()
	cfg.Writer, endWriter = chattest.Writer(t, store)
	c, err := chat.New(cfg)
	must(t, err)
	end := persistencetest.Start(t, c.Run)
	stop := func() { end(); endWriter() }
	return &bench{t: t, store: store, c: c, key: persistencetest.NewThread(t, store, "anna", ""), stop: stop}
}

func (b *bench) within() context.Context { return persistencetest.Within(b.t) }

func (b *bench) turn(req chat.TurnRequest) *chat.Turn {
	b.t.Helper()
	req.Key = b.key
	turn, err := b.c.Turn(b.t.Context(), req)
	must(b.t, err)
	return turn
}

func (b *bench) wait(turn *chat.Turn) chat.Result {
	b.t.Helper()
	r, err := turn.Wait(b.within())
	must(b.t, err)
	return r
}

// say runs a turn with some words and waits for its end.
func (b *bench) say(text string) chat.Result {
	b.t.Helper()
	return b.wait(b.turn(chat.TurnRequest{Text: text}))
}

func (b *bench) messages() []thread.Message {
	b.t.Helper()
	all, err := b.store.Messages(b.t.Context(), b.key, 0, 1000)
	must(b.t, err)
	return all
}

// write appends messages to the thread, as they are.
func (b *bench) write(messages ...thread.Message) {
	b.t.Helper()
	must(b.t, b.store.Batch(b.t.Context(), b.key, func(batch *persistence.Batch) error {
		for _, m := range messages {
			if _, err := batch.AppendMessage(m); err != nil {
				return err
			}
		}
		return nil
	}))
}

// follow collects the events of a turn from an index on.
func (b *bench) follow(turn *chat.Turn, from int) []chat.Event {
	b.t.Helper()
	var all []chat.Event
	for e, err := range turn.Events(b.within(), from) {
		must(b.t, err)
		all = append(all, e)
	}
	return all
}

// until waits for the first event of a kind and returns it.
func (b *bench) until(turn *chat.Turn, kind chat.EventType) chat.Event {
	b.t.Helper()
	for e, err := range turn.Events(b.within(), 0) {
		must(b.t, err)
		if e.Type == kind {
			return e
		}
	}
	b.t.Fatalf("the turn ended without %s", kind)
	return chat.Event{}
}

// outline writes a thread as text, one message per line.
func outline(messages []thread.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s %s:", m.Role, m.Metadata.Status)
		for _, p := range m.Parts {
			switch {
			case p.IsTool() && p.State == thread.ToolOutputAvailable:
				fmt.Fprintf(&b, " %s(%s)=%s", p.Type, p.ToolCallID, strings.ReplaceAll(string(p.Output), `": `, `":`))
			case p.IsTool() && p.State == thread.ToolOutputError:
				fmt.Fprintf(&b, " %s(%s)!%s", p.Type, p.ToolCallID, p.ErrorText)
			case p.IsTool():
				fmt.Fprintf(&b, " %s(%s)?", p.Type, p.ToolCallID)
			case p.Type == "step-start":
				b.WriteString(" |")
			default:
				fmt.Fprintf(&b, " %q", p.Text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// talk writes the messages of a request as text, one per line, without the context note.
func talk(messages []llm.Message) string {
	var b strings.Builder
	for _, m := range messages {
		content := m.Content
		if rest, ok := strings.CutPrefix(content, "[CONTEXT:"); ok {
			_, content, _ = strings.Cut(rest, "]\n\n")
		}
		fmt.Fprintf(&b, "%s: %s", m.Role, content)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " %s=%s(%s)%s", c.ID, c.Name, c.Arguments, c.Metadata)
		}
		if m.ToolCallID != "" {
			fmt.Fprintf(&b, " <- %s %s", m.ToolCallID, m.ToolName)
		}
		if m.Failed {
			b.WriteString(" failed")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func checkText(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}
