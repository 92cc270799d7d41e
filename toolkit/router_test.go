package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
)

func success(output string) Chunk { return Chunk{Result: &Result{Output: json.RawMessage(output)}} }
func failure(text string) Chunk   { return Chunk{Result: &Result{Error: text}} }

// yields is a tool that yields the given chunks.
func yields(chunks ...Chunk) func(context.Context, Call, func(Chunk, error) bool) {
	return func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func routerOf(t *testing.T, config RouterConfig, tool *fakeTool) *Router {
	t.Helper()
	r := NewRegistry()
	mustAdd(t, r, Entry{Tool: tool, Executor: ExecutorApp})
	return NewRouter(r, config)
}

// collect runs a call and returns its progress, too.
func collect(ctx context.Context, router *Router, call Call) (progress []Chunk, result Result) {
	result = router.Call(ctx, call, func(c Chunk) { progress = append(progress, c) })
	return progress, result
}

func TestRouterAnswersEveryCallOnce(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},
		"list":{"type":"array","items":{"$ref":"#/$defs/point"}}},"required":["n"],"additionalProperties":false,
		"$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}}}`)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	hungUp, hangUp := context.WithCancelCause(t.Context())
	hangUp(errors.New("hang-up"))
	huge := strings.Repeat("x", 300<<10)
	for name, tc := range map[string]struct {
		ctx       context.Context
		name      string
		arguments string
		call      func(context.Context, Call, func(Chunk, error) bool)
		output    string // of a success
		err       string // part of a failure
	}{
		"success":             {arguments: `{"n":1}`, call: yields(success(`{"a":1}`)), output: `{"a":1}`},
		"no output":           {arguments: `{"n":1}`, call: yields(success(``)), output: `null`},
		"last success counts": {arguments: `{"n":1}`, call: yields(success(`1`), Chunk{Message: "more"}, success(`2`)), output: `2`},
		"failure":             {arguments: `{"n":1}`, call: yields(failure("no")), err: "no"},
		"success, then failure": {
			arguments: `{"n":1}`, call: yields(success(`1`), failure("no")), err: "no"},
		"failure is final": {arguments: `{"n":1}`, call: yields(failure("no"), success(`1`)), err: "no"},
		"only progress":    {arguments: `{"n":1}`, call: yields(Chunk{Message: "loading"}), err: "ended without a result"},
		"nothing":          {arguments: `{"n":1}`, call: yields(), err: "ended without a result"},
		"goexit": {arguments: `{"n":1}`, err: "ended without a result",
			call: func(context.Context, Call, func(Chunk, error) bool) { runtime.Goexit() }},
		"error": {arguments: `{"n":1}`, err: "disk full",
			call: func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
				yield(Chunk{}, errors.New("disk full"))
			}},
		"error after a success": {arguments: `{"n":1}`, err: "disk full",
			call: func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
				yield(success(`1`), nil)
				yield(Chunk{}, errors.New("disk full"))
			}},
		"panic": {arguments: `{"n":1}`, err: "internal error",
			call: func(context.Context, Call, func(Chunk, error) bool) { panic("secret detail") }},
		"unknown tool":       {name: "creat_chart", arguments: `{}`, err: `no tool named "creat_chart"; the tools are: tool`},
		"cancelled before":   {ctx: cancelled, arguments: `{"n":1}`, err: "was cancelled"},
		"cancelled, cause":   {ctx: hungUp, arguments: `{"n":1}`, err: "was cancelled: hang-up"},
		"malformed":          {arguments: `{"n":`, err: "not valid JSON"},
		"a field twice":      {arguments: `{"n":"<b>","n":1}`, err: `"n" twice`},
		"twice, one escaped": {arguments: `{"n":1,"\u006e":2}`, err: `"n" twice`},
		"twice, deep":        {arguments: `{"n":1,"list":[1,[],{},{"a":{"b":[{"c":1},{"c":1,"d":{},"c":2}]}}]}`, err: `"c" twice`},
		"text after":         {arguments: `{"n":1}}`, err: "not valid JSON"},
		"array":              {arguments: `[1]`, err: "must be a JSON object, not an array"},
		"null":               {arguments: `null`, err: "must be a JSON object, not null"},
		"string":             {arguments: `"{}"`, err: "must be a JSON object, not a string"},
		"too large":          {arguments: `{"n":"` + huge + `"}`, err: "the limit is 262144"},
		"too deep":           {arguments: strings.Repeat(`{"n":`, 65) + "1" + strings.Repeat("}", 65), err: "deeper than 64"},
		"huge number":        {arguments: `{"n":1e999}`, err: "out of range"},
		"missing field":      {arguments: ``, err: `"n"`},
		"wrong type":         {arguments: `{"n":"one"}`, err: "n: type: one"},
		"unknown field":      {arguments: `{"n":1,"evil":2}`, err: `"evil"`},
		"field below a $ref": {arguments: `{"n":1,"list":[{"x":"a"}]}`, err: "list[].x: type: a"},
		"output too large":   {arguments: `{"n":1}`, call: yields(success(`"` + strings.Repeat("x", MaxOutput) + `"`)), err: "1048578 bytes long, the limit is 1048576"},
		"output not JSON":    {arguments: `{"n":1}`, call: yields(success(`{`)), err: "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.call == nil {
				tc.call = func(context.Context, Call, func(Chunk, error) bool) { t.Error("the tool ran") }
			}
			if tc.ctx == nil {
				tc.ctx = t.Context()
			}
			if tc.name == "" {
				tc.name = "tool"
			}
			router := routerOf(t, RouterConfig{}, &fakeTool{def: Definition{Name: "tool", Parameters: schema}, call: tc.call})
			_, result := collect(tc.ctx, router, Call{Name: tc.name, Arguments: tc.arguments})
			if !strings.Contains(result.Error, tc.err) || result.Failed() != (tc.err != "") || string(result.Output) != tc.output {
				t.Errorf("got %+v (output %s), want error %q, output %s", result, result.Output, tc.err, tc.output)
			}
			if result.Failed() && !strings.HasPrefix(result.ForModel(), "Error: ") {
				t.Errorf("the model receives %q", result.ForModel())
			}
			if strings.Contains(result.Error, "secret detail") {
				t.Errorf("the panic's value reaches the model: %q", result.Error)
			}
			if len(result.Error) > 5000 {
				t.Errorf("the error has %d bytes", len(result.Error))
			}
		})
	}
}

func TestRouterPassesArguments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "{}", " \n": "{}", `{"a":12345678901234567890}`: `{"a":12345678901234567890}`, "{\"a\":\"\xff\"}": "{\"a\":\"\uFFFD\"}",
	} {
		var got Call
		router := routerOf(t, RouterConfig{}, &fakeTool{def: Definition{Name: "tool"},
			call: func(_ context.Context, call Call, yield func(Chunk, error) bool) {
				got = call
				yield(success(`1`), nil)
			}})
		sent := Call{ID: "call_1", Name: "tool", Arguments: in, Owner: "o", ThreadID: "t", CallID: "c"}
		if _, result := collect(t.Context(), router, sent); result.Failed() {
			t.Fatal(result.Error)
		}
		sent.Arguments = want
		testkit.Equal(t, got, sent, "got")
	}
}

func TestRouterCleansProgress(t *testing.T) {
	t.Parallel()
	router := routerOf(t, RouterConfig{}, &fakeTool{def: Definition{Name: "tool"}, call: yields(
		Chunk{Message: "half", Percent: 50, Data: json.RawMessage(`{"status":"processing"}`)},
		Chunk{Message: strings.Repeat("ä", 1000), Percent: math.NaN(), Data: json.RawMessage(`{`)},
		Chunk{Percent: 1e9, Data: json.RawMessage(`"` + strings.Repeat("x", 70<<10) + `"`)},
		success(`1`))})
	progress, _ := collect(t.Context(), router, Call{Name: "tool"})
	want := []Chunk{
		{Message: "half", Percent: 50, Data: json.RawMessage(`{"status":"processing"}`)},
		{Message: strings.Repeat("ä", 499) + "…"},
		{Percent: 100},
	}
	testkit.Equal(t, progress, want, "progress")
}

func TestRouterCutsWhatTheModelReceives(t *testing.T) {
	t.Parallel()
	router := routerOf(t, RouterConfig{}, &fakeTool{def: Definition{Name: "tool"},
		call: yields(success(`"` + strings.Repeat("ä", maxModel) + `"`))})
	_, result := collect(t.Context(), router, Call{Name: "tool"})
	if got := result.ForModel(); len(got) > maxModel || !strings.HasSuffix(got, "[cut: the text has 131074 bytes]") {
		t.Errorf("the model receives %d bytes, at the end %q", len(got), got[len(got)-50:])
	}
	testkit.Equal(t, len(result.Output), 2*maxModel+2, "the output has bytes")
}

func TestRouterTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		own  time.Duration // the tool's own limit
		call func(context.Context, Call, func(Chunk, error) bool)
		err  string // empty: success
		took time.Duration
	}{
		"obeys": {took: 10 * time.Second, err: "timed out after 10s",
			call: func(ctx context.Context, _ Call, yield func(Chunk, error) bool) {
				<-ctx.Done()
				yield(Chunk{}, fmt.Errorf("query: %w", ctx.Err()))
			}},
		"own limit": {own: time.Minute, took: time.Minute, err: "timed out after 1m0s",
			call: func(ctx context.Context, _ Call, yield func(Chunk, error) bool) { <-ctx.Done() }},
		"says it in its own words": {took: 10 * time.Second, err: "the client is silent",
			call: func(ctx context.Context, _ Call, yield func(Chunk, error) bool) {
				<-ctx.Done()
				yield(failure("the client is silent"), nil)
			}},
		"finishes in the grace": {took: 10*time.Second + 100*time.Millisecond,
			call: func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
				time.Sleep(10*time.Second + 100*time.Millisecond)
				yield(success(`1`), nil)
			}},
		"ignores ctx": {took: 10*time.Second + grace, err: "timed out after 10s",
			call: func(context.Context, Call, func(Chunk, error) bool) { time.Sleep(time.Hour) }},
		"ignores ctx and chats": {took: 10*time.Second + grace, err: "timed out after 10s",
			call: func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
				for range 3600 {
					time.Sleep(time.Second / 10)
					if !yield(Chunk{Message: "still here"}, nil) {
						return
					}
				}
			}},
		"has a result, does not end": {took: 10*time.Second + grace,
			call: func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
				yield(success(`1`), nil)
				time.Sleep(time.Hour)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reports []Report
				router := routerOf(t, RouterConfig{Timeout: 10 * time.Second, Observe: func(r Report) { reports = append(reports, r) }},
					&fakeTool{def: Definition{Name: "tool"}, timeout: tc.own, call: tc.call})
				started := time.Now()
				_, result := collect(t.Context(), router, Call{Name: "tool"})
				testkit.Equal(t, time.Since(started), tc.took, "took")
				if result.Failed() != (tc.err != "") || !strings.Contains(result.Error, tc.err) {
					t.Errorf("got %+v, want error %q", result, tc.err)
				}
				ending := EndedDone
				if tc.err != "" {
					ending = EndedTimeout
				}
				if len(reports) != 1 || reports[0].Ending != ending || reports[0].Took != tc.took || reports[0].Entry.Executor != ExecutorApp {
					t.Errorf("reported %+v", reports)
				}
				time.Sleep(2 * time.Hour) // until the tools that go on have ended
			})
		})
	}
}

func TestRouterCancelledInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		router := routerOf(t, RouterConfig{}, &fakeTool{def: Definition{Name: "tool"},
			call: func(ctx context.Context, _ Call, yield func(Chunk, error) bool) {
				if yield(Chunk{Message: "begun"}, nil) {
					<-ctx.Done()
					yield(Chunk{}, ctx.Err())
				}
			}})
		result := router.Call(ctx, Call{Name: "tool"}, func(Chunk) { cancel(errors.New("the caller hung up")) })
		if !strings.Contains(result.Error, "cancelled: the caller hung up") {
			t.Errorf("got %+v", result)
		}
	})
}

func TestRouterUncheckedToolGetsAnyObject(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	tool := named("tool")
	tool.def.Parameters = json.RawMessage(`{"type":"object","properties":{"self":{"$ref":"#"}},"required":["a"]}`)
	if err := r.Add(Entry{Tool: tool, Executor: ExecutorMCP}); err == nil {
		t.Fatal("a schema that refers to itself was accepted")
	}
	mustAdd(t, r, Entry{Tool: tool, Executor: ExecutorMCP, Unchecked: true})
	router := NewRouter(r, RouterConfig{})
	if _, result := collect(t.Context(), router, Call{Name: "tool", Arguments: `{}`}); result.Failed() {
		t.Error(result.Error)
	}
	if _, result := collect(t.Context(), router, Call{Name: "tool", Arguments: `[]`}); !result.Failed() {
		t.Error("an array was accepted")
	}
}

// TestRouterReports checks how the end of each call is reported to an observer.
func TestRouterReports(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		call   Call
		tool   func(context.Context, Call, func(Chunk, error) bool)
		cancel bool // the caller, before
		want   Ending
		known  bool
	}{
		"done":      {call: Call{Name: "tool"}, tool: yields(success(`1`)), want: EndedDone, known: true},
		"failed":    {call: Call{Name: "tool"}, tool: yields(failure("no")), want: EndedFailed, known: true},
		"unknown":   {call: Call{Name: "other"}, want: EndedFailed},
		"arguments": {call: Call{Name: "tool", Arguments: "{"}, want: EndedFailed, known: true},
		"cancelled": {call: Call{Name: "tool"}, tool: yields(success(`1`)), cancel: true, want: EndedCancelled, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reports []Report
			router := routerOf(t, RouterConfig{Observe: func(r Report) { reports = append(reports, r) }}, &fakeTool{def: Definition{Name: "tool"}, call: tc.tool})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.cancel {
				cancel()
			}
			router.Call(ctx, tc.call, nil)
			if len(reports) != 1 || reports[0].Ending != tc.want || (reports[0].Entry.Tool != nil) != tc.known || reports[0].Call.Name != tc.call.Name {
				t.Errorf("reported %+v, want %s", reports, tc.want)
			}
		})
	}
}

// TestRouterLogsNoContent has a tool that fails with somebody's words.
func TestRouterLogsNoContent(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	tool := &fakeTool{def: Definition{Name: "tool"}, call: yields(failure("Rex has no appointment"))}
	r := routerOf(t, RouterConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}, tool)
	if result := r.Call(t.Context(), Call{ID: "c", Name: "tool", Arguments: `{"dog":"Rex"}`}, nil); !result.Failed() {
		t.Fatalf("got %+v", result)
	}
	text := log.String()
	if strings.Contains(text, "Rex") {
		t.Errorf("the log has the words: %s", text)
	}
	for _, want := range []string{"level=WARN", "tool=tool", "tool_call_id=c", "executor=app", "status=failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log has no %s: %s", want, text)
		}
	}
}
