package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
)

// fakeTool is a tool made of a function.
type fakeTool struct {
	def     Definition
	timeout time.Duration
	call    func(ctx context.Context, call Call, yield func(Chunk, error) bool)
}

func (t *fakeTool) Definition() Definition { return t.def }
func (t *fakeTool) Timeout() time.Duration { return t.timeout }
func (t *fakeTool) Call(ctx context.Context, call Call) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) { t.call(ctx, call, yield) }
}

func named(name string) *fakeTool {
	return &fakeTool{
		def: Definition{Name: name},
		call: func(_ context.Context, _ Call, yield func(Chunk, error) bool) {
			yield(Chunk{Result: &Result{Output: json.RawMessage(`{"ok":true}`)}}, nil)
		},
	}
}

func mustAdd(t *testing.T, r *Registry, entries ...Entry) {
	t.Helper()
	for _, e := range entries {
		must(t, r.Add(e))
	}
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		entry Entry
		want  string
	}{
		"no tool":          {Entry{Executor: ExecutorApp}, "no tool"},
		"no name":          {Entry{Tool: named(""), Executor: ExecutorApp}, "name is empty"},
		"space":            {Entry{Tool: named("a b"), Executor: ExecutorApp}, `"a b"`},
		"dot":              {Entry{Tool: named("a.b"), Executor: ExecutorApp}, `"a.b"`},
		"umlaut":           {Entry{Tool: named("ä"), Executor: ExecutorApp}, `"ä"`},
		"newline":          {Entry{Tool: named("a\n"), Executor: ExecutorApp}, `"a\n"`},
		"too long":         {Entry{Tool: named(strings.Repeat("a", 65)), Executor: ExecutorApp}, "longer than 64"},
		"unknown executor": {Entry{Tool: named("a"), Executor: "nobody"}, `"nobody"`},
		"not a schema": {Entry{Tool: &fakeTool{def: Definition{Name: "a", Parameters: json.RawMessage(`[1]`)}}, Executor: ExecutorApp},
			"not a JSON Schema"},
		"not an object schema": {Entry{Tool: &fakeTool{def: Definition{Name: "a", Parameters: json.RawMessage(`{"type":"string"}`)}}, Executor: ExecutorMCP, Server: "s"},
			`(mcp, server "s")`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRegistry()
			err := r.Add(tc.entry)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Add: got %v, want an error with %q", err, tc.want)
			}
			testkit.Equal(t, r.Len(), 0, "the registry has tools")
		})
	}
}

func TestRegistryNamesBothOfOneName(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	mustAdd(t, r, Entry{Tool: named("same"), Executor: ExecutorApp})
	err := r.Add(Entry{Tool: named("same"), Executor: ExecutorMCP, Server: "files"})
	if !errors.Is(err, ErrDuplicate) {
		t.Fatalf("got %v, want ErrDuplicate", err)
	}
	for _, part := range []string{`"same"`, "app", `mcp, server "files"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	if e, _ := r.Lookup("same"); e.Executor != ExecutorApp {
		t.Errorf("the first tool was replaced by %q", e.Executor)
	}
}

// TestModelNames has each name begin with a letter for models, be short enough, stay another than all others, and come
// back as the tool's own.
func TestModelNames(t *testing.T) {
	t.Parallel()
	long := "9" + strings.Repeat("x", MaxName-2)
	names := []string{"plain", "21st", "_21st", "t_21st", "-21st", "1", "_", long + "x", long + "y", "____tool", ModelName("0")}
	r := NewRegistry()
	for _, n := range names {
		mustAdd(t, r, Entry{Tool: named(n), Executor: ExecutorApp})
	}
	got := map[string]bool{}
	for _, d := range r.Definitions() {
		v := r.Invoke("", Call{Name: d.Name}, 0, time.Time{})
		if c := d.Name[0] | 0x20; c < 'a' || c > 'z' || CheckName(d.Name) != nil || ModelName(v.Call.Name) != d.Name && v.Call.Name != d.Name {
			t.Errorf("%q is sent as %q", v.Call.Name, d.Name)
		}
		got[v.Call.Name] = true
		if again := NewRouter(r, RouterConfig{}).Call(t.Context(), Call{Name: d.Name}, nil); again.Failed() {
			t.Errorf("%q: %+v", d.Name, again)
		}
	}
	for _, n := range names {
		if !got[n] {
			t.Errorf("%q does not come back: %v", n, got)
		}
	}
	for of, want := range map[string]string{"": "unknown", "a b": "a_b", "日": MarkedName("t__", "日"), strings.Repeat("a", 99): strings.Repeat("a", MaxName)} {
		testkit.Equal(t, ModelName(of), want, "%q becomes", of)
	}
}

func TestRegistryOrderIsStable(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	mustAdd(t, r,
		Entry{Tool: named("m_a"), Executor: ExecutorMCP}, Entry{Tool: named("z"), Executor: ExecutorApp},
		Entry{Tool: named("b"), Executor: ExecutorApp}, Entry{Tool: named("y"), Executor: ExecutorClient},
		Entry{Tool: named("x"), Executor: ExecutorClient},
	)
	want := []string{"x", "y", "b", "z", "m_a"}
	for range 20 {
		var defs, entries []string
		for _, d := range r.Definitions() {
			defs = append(defs, d.Name)
			if !json.Valid(d.Parameters) {
				t.Errorf("parameters of %s: %q", d.Name, d.Parameters)
			}
		}
		for _, e := range r.Entries() {
			entries = append(entries, e.Tool.Definition().Name)
		}
		if diff := cmp.Diff(want, defs); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(want, entries); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestManyTools has more tools than a model is offered: those of MCP servers are left out first, and all
// can be called.
func TestManyTools(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	for i := range MaxOffered {
		mustAdd(t, r, Entry{Tool: named(fmt.Sprintf("mcp__%03d", i)), Executor: ExecutorMCP, Server: "mcp"})
	}
	mustAdd(t, r, Entry{Tool: named("zoom"), Executor: ExecutorApp}, Entry{Tool: named("zap"), Executor: ExecutorClient})
	defs := r.Definitions()
	if n := len(defs); n != MaxOffered || defs[0].Name != "zap" || defs[1].Name != "zoom" || defs[n-1].Name != "mcp__125" {
		t.Errorf("%d tools are offered, from %q to %q", n, defs[0].Name, defs[n-1].Name)
	}
	if _, ok := r.Lookup("mcp__127"); !ok || len(r.Entries()) != MaxOffered+2 {
		t.Error("a tool is missing")
	}
}

func TestRegistryReplaceIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	mustAdd(t, r, Entry{Tool: named("server"), Executor: ExecutorApp}, Entry{Tool: named("old"), Executor: ExecutorClient})
	client := func(name string) Entry { return Entry{Tool: named(name), Executor: ExecutorClient} }

	for name, add := range map[string][]Entry{
		"taken":     {client("fresh"), client("server")},
		"twice":     {client("fresh"), client("fresh")},
		"malformed": {client("fresh"), client("not ok")},
	} {
		if err := r.Replace([]string{"old"}, add); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, ok := r.Lookup("old"); !ok || r.Len() != 2 {
			t.Fatalf("%s: the registry changed", name)
		}
	}
	must(t, r.Replace([]string{"old", "never was"}, []Entry{client("old"), client("fresh")}))
	testkit.Equal(t, r.Len(), 3, "tools")
	if err := r.Replace([]string{"fresh"}, nil); err != nil || r.Len() != 2 {
		t.Errorf("got %v and %d tools, want 2", err, r.Len())
	}
}

func TestRegistryCloneIsIndependent(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	mustAdd(t, r, Entry{Tool: named("a"), Executor: ExecutorApp})
	c := r.Clone()
	mustAdd(t, c, Entry{Tool: named("b"), Executor: ExecutorClient})
	must(t, c.Replace([]string{"a"}, nil))
	if _, ok := r.Lookup("a"); !ok || r.Len() != 1 {
		t.Error("a change of the clone changed the registry")
	}
}

func TestRegistryConcurrentUse(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	mustAdd(t, r, Entry{Tool: named("stays"), Executor: ExecutorApp})
	router := NewRouter(r, RouterConfig{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("tool_%d", i)
			for range 100 {
				if err := r.Add(Entry{Tool: named(name), Executor: ExecutorClient}); err != nil {
					t.Error(err)
				}
				if result := router.Call(t.Context(), Call{Name: "stays"}, nil); result.Failed() {
					t.Error(result.Error)
				}
				r.Definitions()
				if err := errors.Join(r.Clone().Replace([]string{"stays"}, nil), r.Replace([]string{name}, nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	testkit.Equal(t, r.Len(), 1, "tools")
}
