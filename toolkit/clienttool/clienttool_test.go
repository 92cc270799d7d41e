package clienttool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/toolkit"
)

func theme() toolkit.Definition {
	return toolkit.Definition{Name: "changeBrowserTheme", Description: "Changes the theme",
		Parameters: json.RawMessage(`{"type":"object","properties":{"theme":{"type":"string","enum":["light","dark"]}},"required":["theme"]}`)}
}

// setup returns a toolkit with one declared tool and a router that finds it.
func setup(t *testing.T) (*Toolkit, *toolkit.Router) {
	t.Helper()
	registry := toolkit.NewRegistry()
	k := New(registry, Config{})
	must(t, k.Declare([]toolkit.Definition{theme()}))
	return k, toolkit.NewRouter(registry, toolkit.RouterConfig{})
}

// waits reports whether the call waits for the client's answer.
func (k *Toolkit) waits(callID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.open[callID]
	return ok && !w.isAnswered()
}

func call(id string) toolkit.Call {
	return toolkit.Call{ID: id, Name: "changeBrowserTheme", Arguments: `{"theme":"dark"}`}
}

// serverTool is a tool of the server.
type serverTool struct{}

func (serverTool) Definition() toolkit.Definition { return toolkit.Definition{Name: "createTable"} }
func (serverTool) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(func(toolkit.Chunk, error) bool) {}
}

func TestAnswerAfterTheToolRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, router := setup(t)
		done := make(chan toolkit.Result, 1)
		go func() { done <- router.Call(t.Context(), call("c1"), nil) }()
		synctest.Wait()
		if !k.waits("c1") || k.waits("c2") {
			t.Error("c1 does not wait, or c2 does")
		}
		if err := k.Deliver("c2", "{}"); !errors.Is(err, errNotOpen) {
			t.Errorf("unknown call: got %v", err)
		}
		must(t, k.Deliver("c1", `{"ok": true}`))
		if err := k.Deliver("c1", `{}`); !errors.Is(err, errNotOpen) {
			t.Errorf("second answer: got %v", err)
		}
		result := <-done
		if string(result.Output) != `{"ok": true}` || result.ForModel() != `{"ok": true}` || result.Failed() {
			t.Errorf("got %+v", result)
		}
		if k.waits("c1") {
			t.Error("the call is still open")
		}
		if err := k.Deliver("c1", `{}`); !errors.Is(err, errNotOpen) {
			t.Errorf("answer after the end: got %v", err)
		}
	})
}

func TestAnswerBeforeTheToolRuns(t *testing.T) {
	t.Parallel()
	k, router := setup(t)
	for range 2 { // the second time has no effect
		must(t, k.Expect("c1"))
	}
	if !k.waits("c1") {
		t.Error("an expected call is not open")
	}
	must(t, k.Deliver("c1", `"early"`))
	if k.waits("c1") {
		t.Error("an answered call is open")
	}
	if err := k.Expect("c1"); err != nil { // must not open it again
		t.Fatal(err)
	}
	if err := k.Deliver("c1", `"second"`); !errors.Is(err, errNotOpen) {
		t.Errorf("got %v, want errNotOpen", err)
	}
	if result := router.Call(t.Context(), call("c1"), nil); string(result.Output) != `"early"` {
		t.Errorf("got %+v", result)
	}
}

// Every answer that Deliver accepts is the call's result, even when it arrives with the
// timeout.
func TestAcceptedAnswersAreNeverLost(t *testing.T) {
	t.Parallel()
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			k, router := setup(t)
			must(t, k.Expect("c1"))
			accepted := make(chan error, 1)
			go func() {
				time.Sleep(toolkit.DefaultTimeout) // at the same moment
				accepted <- k.Deliver("c1", "in time")
			}()
			result := router.Call(t.Context(), call("c1"), nil)
			if err := <-accepted; (err == nil) == result.Failed() {
				t.Errorf("run %d: Deliver gave %v, the result is %+v", i, err, result)
			}
		})
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for name, tc := range map[string]struct{ output, want string }{
		"object":              {`{"a":1}`, `{"a":1}`},
		"error of the client": {`{"error":"denied"}`, `{"error":"denied"}`},
		"text":                {`done, "really"`, `"done, \"really\""`},
		"empty":               {``, `""`},
		"half JSON":           {`{"a":`, `"{\"a\":"`},
		"null":                {`null`, `null`},
		"too deep for JSON":   {deep, `"` + deep + `"`},
		"invalid UTF-8":       {"a\xff", `"a` + "\uFFFD" + `"`},
		"just fits":           {strings.Repeat("x", MaxOutput), `"` + strings.Repeat("x", MaxOutput) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, router := setup(t)
			must(t, errors.Join(k.Expect("c"), k.Deliver("c", tc.output)))
			result := router.Call(t.Context(), call("c"), nil)
			// Invalid UTF-8 may be replaced by the character or its escape: the value counts.
			var got, want any
			must(t, errors.Join(json.Unmarshal(result.Output, &got), json.Unmarshal([]byte(tc.want), &want)))
			if result.Failed() || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %.200s (error %q), want %.200s", result.Output, result.Error, tc.want)
			}
		})
	}
}

func TestTooLargeAnswerFailsTheCall(t *testing.T) {
	t.Parallel()
	k, router := setup(t)
	must(t, k.Expect("c"))
	if err := k.Deliver("c", strings.Repeat("x", MaxOutput+1)); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v, want errTooLarge", err)
	}
	result := router.Call(t.Context(), call("c"), nil)
	if !strings.Contains(result.Error, "65537 bytes, the limit is 65536") {
		t.Errorf("got %+v", result)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, router := setup(t)
		started := time.Now()
		result := router.Call(t.Context(), call("c"), nil)
		if took := time.Since(started); took != toolkit.DefaultTimeout || result.Error != "the client did not answer within 30s" {
			t.Errorf("got %+v after %v", result, took)
		}
		if err := k.Deliver("c", "late"); !errors.Is(err, errNotOpen) {
			t.Errorf("got %v, want errNotOpen", err)
		}

		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		result = router.Call(ctx, call("d"), nil)
		if !strings.Contains(result.Error, "ended before the client answered") || k.waits("d") {
			t.Errorf("got %+v, open %v", result, k.waits("d"))
		}
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	k, router := setup(t)
	must(t, k.Expect("c"))
	// The router refuses the arguments, so the tool never runs.
	bad := call("c")
	bad.Arguments = `{"theme":"pink"}`
	if result := router.Call(t.Context(), bad, nil); !strings.Contains(result.Error, "theme: enum") {
		t.Fatalf("got %+v", result)
	}
	k.Forget("c")
	k.Forget("never was")
	if err := k.Deliver("c", "{}"); !errors.Is(err, errNotOpen) {
		t.Errorf("got %v, want errNotOpen", err)
	}
}

func TestOneRunPerCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, router := setup(t)
		first := make(chan toolkit.Result, 1)
		go func() { first <- router.Call(t.Context(), call("c"), nil) }()
		synctest.Wait()
		if second := router.Call(t.Context(), call("c"), nil); !strings.Contains(second.Error, "is already running") {
			t.Errorf("got %+v", second)
		}
		if err := k.Deliver("c", "1"); err != nil {
			t.Errorf("the second run closed the first: %v", err)
		}
		if result := <-first; result.Failed() {
			t.Error(result.Error)
		}
	})
}

func TestOpenCallsAreBounded(t *testing.T) {
	t.Parallel()
	k, _ := setup(t)
	for i := range maxOpen {
		must(t, k.Expect(fmt.Sprint(i)))
	}
	for _, id := range []string{"one more", "", strings.Repeat("x", maxCallID+1)} {
		if err := k.Expect(id); err == nil {
			t.Errorf("the id %.20q was accepted", id)
		}
	}
}

func TestDeclareRefuses(t *testing.T) {
	t.Parallel()
	many := make([]toolkit.Definition, MaxTools+1)
	for i := range many {
		many[i] = toolkit.Definition{Name: fmt.Sprintf("t%d", i)}
	}
	large := func(name string) toolkit.Definition {
		return toolkit.Definition{Name: name, Parameters: json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 40<<10) + `"}`)}
	}
	for name, tc := range map[string]struct {
		defs []toolkit.Definition
		want string
	}{
		"a server's name":   {[]toolkit.Definition{{Name: "fresh"}, {Name: "createTable"}}, `"createTable" (client): the name is taken by a tool of the executor app`},
		"twice":             {[]toolkit.Definition{{Name: "fresh"}, {Name: "fresh"}}, `"fresh" (client): the name is taken by a tool of the executor client`},
		"bad name":          {[]toolkit.Definition{{Name: "fresh"}, {Name: "<b>"}}, "declare tool 1"},
		"long name":         {[]toolkit.Definition{{Name: strings.Repeat("n", 65)}}, "longer than 64"},
		"long description":  {[]toolkit.Definition{{Name: "a", Description: strings.Repeat("ä", 1025)}}, "1025 characters"},
		"not an object":     {[]toolkit.Definition{{Name: "a", Parameters: json.RawMessage(`{"type":"string"}`)}}, `"type":"object"`},
		"no schema":         {[]toolkit.Definition{{Name: "a", Parameters: json.RawMessage(`"x"`)}}, "not a JSON Schema"},
		"endless schema":    {[]toolkit.Definition{{Name: "a", Parameters: json.RawMessage(`{"type":"object","$ref":"#"}`)}}, "refers to itself"},
		"too many":          {many, "there are 65, the limit is 64"},
		"too large at once": {[]toolkit.Definition{large("a"), large("b")}, "larger than 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := toolkit.NewRegistry()
			must(t, registry.Add(toolkit.Entry{Tool: serverTool{}, Executor: toolkit.ExecutorApp}))
			k := New(registry, Config{})
			must(t, k.Declare([]toolkit.Definition{theme()}))
			err := k.Declare(tc.defs)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if registry.Len() != 2 || !k.Declared("changeBrowserTheme") || k.Declared("createTable") || k.Declared("fresh") {
				t.Error("a refused declaration changed the tools")
			}
		})
	}
}

func TestDeclareReplaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, router := setup(t)
		running := make(chan toolkit.Result, 1)
		go func() { running <- router.Call(t.Context(), call("c"), nil) }()
		synctest.Wait()
		changed := theme()
		changed.Description = "other"
		must(t, k.Declare([]toolkit.Definition{{Name: "navigate"}, changed}))
		defs := k.registry.Definitions()
		if len(defs) != 2 || defs[0].Description != "other" || defs[1].Name != "navigate" {
			t.Errorf("got %+v", defs)
		}
		if err := k.Declare(nil); err != nil || k.registry.Len() != 0 {
			t.Errorf("got %v and %d tools, want none", err, k.registry.Len())
		}
		// Calls that were open stay open.
		if err := k.Deliver("c", "1"); err != nil {
			t.Error(err)
		}
		if result := <-running; result.Failed() {
			t.Error(result.Error)
		}
	})
}

func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	k, router := setup(t)
	var wg sync.WaitGroup
	for i := range 50 {
		id := fmt.Sprint(i)
		must(t, k.Expect(id))
		wg.Go(func() {
			if result := router.Call(t.Context(), call(id), nil); result.ForModel() != "answer "+id {
				t.Errorf("call %s: got %+v", id, result)
			}
		})
		wg.Go(func() {
			if err := k.Deliver(id, "answer "+id); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := k.Declare([]toolkit.Definition{theme()}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
