//go:build linux

package code

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// rig is a sandbox behind a router, and the children it has started.
type rig struct {
	t       *testing.T
	sandbox *Sandbox
	router  *toolkit.Router

	mu   sync.Mutex
	pids []int
}

// setup returns a rig, all of whose children are gone when the test ends.
func setup(t *testing.T, config Config, watch watcher) *rig {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	config.executable = cmp.Or(config.executable, childProgram)
	config.Timeout = cmp.Or(config.Timeout, 5*time.Minute) // children start late on a busy machine: they give way
	sandbox := New(config)
	r := &rig{t: t, sandbox: sandbox}
	sandbox.watch = watch
	sandbox.watch.started = func(pid int) {
		r.mu.Lock()
		r.pids = append(r.pids, pid)
		r.mu.Unlock()
		if watch.started != nil {
			watch.started(pid)
		}
	}
	registry := toolkit.NewRegistry()
	for _, tool := range []toolkit.Tool{sandbox.JavaScript(), sandbox.Python()} {
		must(t, registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
	}
	r.router = toolkit.NewRouter(registry, toolkit.RouterConfig{})
	t.Cleanup(r.checkNoChildren)
	return r
}

// checkNoChildren fails if a child's process group still exists. Call it after all calls.
func (r *rig) checkNoChildren() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pid := range r.pids {
		if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
			r.t.Errorf("the process group %d is still there: %v", pid, err)
		}
	}
}

func (r *rig) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pids)
}

// call runs a tool with arguments as a model would write them.
func (r *rig) call(ctx context.Context, name, arguments string) toolkit.Result {
	return r.router.Call(ctx, toolkit.Call{ID: "call_1", Name: name, Arguments: arguments}, nil)
}

// run runs a program and decodes its outcome.
func (r *rig) run(ctx context.Context, name, code string) (Outcome, toolkit.Result) {
	r.t.Helper()
	result := r.call(ctx, name, string(toolkit.Encode(map[string]string{"code": code})))
	var outcome Outcome
	if err := json.Unmarshal(result.Output, &outcome); err != nil {
		r.t.Fatalf("output %.200q: %v (error %.2000q)", result.Output, err, result.Error)
	}
	if result.Failed() != (outcome.Exit != ExitCompleted) || result.Failed() != (outcome.Error != "") {
		r.t.Errorf("failed %v (%.2000q) does not fit exit %q, error %.500q", result.Failed(), result.Error, outcome.Exit, outcome.Error)
	}
	return outcome, result
}

func (r *rig) javaScript(code string) Outcome {
	r.t.Helper()
	outcome, _ := r.run(r.t.Context(), JavaScriptName, code)
	return outcome
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	for _, d := range []toolkit.Definition{javaScriptDefinition, pythonDefinition} {
		if err := toolkit.CheckName(d.Name); err != nil {
			t.Error(err)
		}
		if err := toolkit.CheckParameters(d.Parameters); err != nil {
			t.Error(d.Name, err)
		}
		if d.Description == "" || len(d.Description) > 1024 {
			t.Errorf("%s: the description has %d bytes; a client may declare 1024", d.Name, len(d.Description))
		}
	}
	if javaScriptDefinition.Name != "mini-javascript-execution" || pythonDefinition.Name != "python-execution" {
		t.Error("the names are known to models and saved threads")
	}
}

func TestArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	for name, c := range map[string]struct{ arguments, want string }{
		"empty":        {``, "code"},
		"no code":      {`{}`, "code"},
		"empty code":   {`{"code":""}`, "code"},
		"not a string": {`{"code":7}`, "code"},
		"more":         {`{"code":"1","timeout":100000}`, "timeout"},
		"not JSON":     {`{"code":"1`, "JSON"},
		"an array":     {`["1"]`, "object"},
		"1 MB of code": {`{"code":"` + strings.Repeat("1+", 512<<10) + `1"}`, "limit"},
	} {
		for _, tool := range []string{JavaScriptName, PythonName} {
			result := r.call(t.Context(), tool, c.arguments)
			if !strings.Contains(result.Error, c.want) {
				t.Errorf("%s, %s: error %.300q does not name %q", tool, name, result.Error, c.want)
			}
		}
	}
	testkit.Equal(t, r.started(), 0, "processes were started for bad arguments")
}
