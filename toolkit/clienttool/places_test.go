package clienttool

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/toolkit"
)

// places lets a client take the place of createTable.
func places(t *testing.T) (*Toolkit, *toolkit.Registry) {
	t.Helper()
	registry := toolkit.NewRegistry()
	if err := registry.Add(toolkit.Entry{Tool: serverTool{}, Executor: toolkit.ExecutorApp}); err != nil {
		t.Fatal(err)
	}
	return New(registry, Config{Places: map[string]Place{"createTable": {
		Timeout: time.Minute, Result: func(output string) toolkit.Result { return toolkit.Result{Error: "read: " + output} },
	}}}), registry
}

func executor(t *testing.T, r *toolkit.Registry, name string) toolkit.Executor {
	t.Helper()
	e, ok := r.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %q", name)
	}
	return e.Executor
}

func TestAPlaceIsTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	k, registry := places(t)
	table := toolkit.Definition{Name: "createTable", Description: "of the client"}
	for range 2 { // declared anew it stays the client's
		if err := k.Declare([]toolkit.Definition{table, theme()}); err != nil {
			t.Fatal(err)
		}
		if got := executor(t, registry, "createTable"); got != toolkit.ExecutorClient || !k.Declared("createTable") || registry.Len() != 2 {
			t.Fatalf("the tool is the %s's, of %d", got, registry.Len())
		}
	}
	// What is refused changes nothing.
	if err := k.Declare([]toolkit.Definition{{Name: "<b>"}}); err == nil || executor(t, registry, "createTable") != toolkit.ExecutorClient {
		t.Errorf("after a refusal (%v) the tool is not the client's", err)
	}
	if err := k.Declare([]toolkit.Definition{theme()}); err != nil {
		t.Fatal(err)
	}
	if got := executor(t, registry, "createTable"); got != toolkit.ExecutorApp || k.Declared("createTable") {
		t.Errorf("the tool that was given back is the %s's", got)
	}
}

func TestOnlyPlacesCanBeTaken(t *testing.T) {
	t.Parallel()
	registry := toolkit.NewRegistry()
	if err := registry.Add(toolkit.Entry{Tool: serverTool{}, Executor: toolkit.ExecutorApp}); err != nil {
		t.Fatal(err)
	}
	k := New(registry, Config{Places: map[string]Place{"another": {}}})
	err := k.Declare([]toolkit.Definition{{Name: "createTable"}, {Name: "another"}})
	if !errors.Is(err, toolkit.ErrDuplicate) || executor(t, registry, "createTable") != toolkit.ExecutorApp || registry.Len() != 1 {
		t.Errorf("got %v", err)
	}
	if k.MayReplace("createTable") || !k.MayReplace("another") {
		t.Error("MayReplace names the wrong tools")
	}
	// A place without a tool of the server is like any other name.
	if err := k.Declare([]toolkit.Definition{{Name: "another"}}); err != nil || !k.Declared("another") {
		t.Errorf("got %v", err)
	}
	if err := k.Declare(nil); err != nil || registry.Len() != 1 {
		t.Errorf("got %v and %d tools", err, registry.Len())
	}
}

func TestTheServersToolsAreReplaced(t *testing.T) {
	t.Parallel()
	k, registry := places(t)
	server := func(names ...string) (entries []toolkit.Entry) {
		for _, name := range names {
			entries = append(entries, toolkit.Entry{Tool: namedTool(name), Executor: toolkit.ExecutorMCP, Server: "new"})
		}
		return entries
	}
	if err := k.Declare([]toolkit.Definition{{Name: "createTable"}}); err != nil {
		t.Fatal(err)
	}
	if err := k.ReplaceServer(nil, server("createTable", "dig")); err != nil {
		t.Fatal(err)
	}
	if executor(t, registry, "createTable") != toolkit.ExecutorClient || executor(t, registry, "dig") != toolkit.ExecutorMCP {
		t.Error("the client's tool did not stay")
	}
	if err := k.Declare(nil); err != nil {
		t.Fatal(err)
	}
	if e, _ := registry.Lookup("createTable"); e.Server != "new" {
		t.Errorf("the tool that came back is %+v, not the new one", e)
	}
	// What the server no longer has does not come back.
	if err := k.Declare([]toolkit.Definition{{Name: "createTable"}}); err != nil {
		t.Fatal(err)
	}
	if err := k.ReplaceServer([]string{"dig"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Declare(nil); err != nil || registry.Len() != 0 {
		t.Errorf("got %v and %d tools", err, registry.Len())
	}
	if err := k.Declare([]toolkit.Definition{theme()}); err != nil {
		t.Fatal(err)
	}
	if err := k.ReplaceServer(nil, server("changeBrowserTheme")); !errors.Is(err, toolkit.ErrDuplicate) {
		t.Errorf("a name of the client was taken: %v", err)
	}
}

func TestAPlaceHasItsOwnLimitAndResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, registry := places(t)
		if err := k.Declare([]toolkit.Definition{{Name: "createTable"}}); err != nil {
			t.Fatal(err)
		}
		router := toolkit.NewRouter(registry, toolkit.RouterConfig{})
		call := toolkit.Call{ID: "c1", Name: "createTable", Arguments: "{}"}
		began := time.Now()
		result := toolkit.Drain(router.Call(t.Context(), call), nil)
		if !strings.Contains(result.Error, "within 1m0s") || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), result)
		}
		call.ID = "c2"
		if err := errors.Join(k.Expect("c2"), k.Deliver("c2", "yes")); err != nil {
			t.Fatal(err)
		}
		if result := toolkit.Drain(router.Call(t.Context(), call), nil); result.Error != "read: yes" {
			t.Errorf("got %+v", result)
		}
	})
}

// namedTool is a server's tool of any name.
type namedTool string

func (n namedTool) Definition() toolkit.Definition { return toolkit.Definition{Name: string(n)} }
func (n namedTool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return serverTool{}.Call(ctx, call)
}
