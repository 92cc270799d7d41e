//go:build linux

package code

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

func TestNoHostAccess(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	for _, c := range []struct{ code, want string }{
		{`["require", "process", "fetch", "XMLHttpRequest", "WebSocket", "Worker", "importScripts", "std", "os", "bjson", "module", "exports",
			"Deno", "Bun", "Buffer", "global", "window", "self", "document", "navigator", "performance", "scriptArgs", "print", "load", "__print",
			"__loadScript", "read", "readFile", "WebAssembly", "gc"].filter(n => n in globalThis)`, `[]`},
		{`Function("return this")() === globalThis && typeof console.log.constructor("return this.process")()`, `"undefined"`},
		{`const tried = []; for (const m of ["std", "os", "fs", "node:fs", "child_process", "/etc/passwd", "./x.js", "file:///etc/passwd", "http://127.0.0.1/", "data:text/javascript,1"])
			await import(m).then(() => tried.push(m), () => {}); tried`, `[]`},
		{`let seen = []; const f = function() { let c = f.caller; while (c) { seen.push(String(c)); c = c.caller } }; try { f() } catch {} seen`, `[]`},
		{`let seen = "none"; Error.prepareStackTrace = (e, s) => { try { seen = s.map(x => typeof x.getFunction()).filter(x => x !== "undefined" && x !== "function").join() } catch {} return "" }; try { console.log({ get a() { throw new Error } }) } catch (e) { e.stack } seen.includes("__print")`, `false`},
		{`Object.getOwnPropertyNames(console.log).concat(Object.keys(console)).filter(n => /print|host|vm/i.test(n))`, `[]`},
		{`try { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1) } catch (e) { e.name }`, `"TypeError"`},
	} {
		if o := r.javaScript(c.code); o.Exit != ExitCompleted || string(o.Value) != c.want {
			t.Errorf("%s\ngot %s: %s, value %s, want %s", c.code, o.Exit, o.Error, o.Value, c.want)
		}
	}
}

// The program shares a realm with our console and report; what it breaks must affect only
// itself.
func TestBrokenBuiltIns(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	const everything = `for (const o of [Object, Function, Array, String, Number, Promise, Map, Set, RegExp, Error, Date, Symbol, JSON, Reflect, Math, ArrayBuffer, Uint8Array]) {
			for (const target of [o, o.prototype]) for (const k of target ? Reflect.ownKeys(target) : []) {
				if (typeof k === "symbol" && target === Promise) continue;
				try { Object.defineProperty(target, k, { get() { throw new Error("trap " + String(k)) }, configurable: true }) } catch {}
			}
		}`
	for name, c := range map[string]struct{ code, value string }{
		"functions":       {`const bad = () => { throw new Error("trap") }; Function.prototype.call = Function.prototype.apply = Function.prototype.bind = bad; Reflect.apply = bad`, `1`},
		"JSON":            {`JSON.stringify = () => "forged"; JSON.parse = null`, `1`},
		"iterators":       {`Array.prototype[Symbol.iterator] = function*() { yield "forged" }`, `1`},
		"array slots":     {`for (let i = 0; i < 9; i++) Object.defineProperty(Array.prototype, i, { set() { throw new Error("trap") }, get() { return "forged" } })`, `1`},
		"object slots":    {`for (const k of ["get", "set", "name", "stdout", "due", "next", "call", "up", "wait"]) Object.defineProperty(Object.prototype, k, { __proto__: null, set() { throw new Error("trap") }, get() { return "forged" }, configurable: true })`, `1`},
		"promises":        {`Promise.prototype.then = () => { throw new Error("trap") }; Promise.resolve = null; globalThis.Promise = class {}`, `1`},
		"constructor":     {`Object.defineProperty(Promise.prototype, "constructor", { get() { return class { constructor(f) { f(() => {}, () => {}) } } } })`, `1`},
		"strings":         {`String.prototype.slice = String.prototype.toString = () => "forged"; globalThis.String = null`, `1`},
		"instances":       {`Object.defineProperty(Error, Symbol.hasInstance, { value: () => true }); Error.isError = () => true; Array.isArray = () => true`, `1`},
		"frozen":          {`Object.freeze(globalThis); Object.freeze(Object.prototype); Object.freeze(Array.prototype)`, `1`},
		"globals deleted": {`for (const k of Object.getOwnPropertyNames(globalThis)) if (k !== "console") try { delete globalThis[k] } catch {}`, `1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.javaScript(c.code + `; console.log("a", [1], { b: 2 }); 1`)
			if o.Exit != ExitCompleted || string(o.Value) != c.value || !strings.HasPrefix(o.Stdout, "a ") || strings.Contains(o.Stdout, "trap") {
				t.Errorf("got %s: %s, value %s, stdout %q", o.Exit, o.Error, o.Value, o.Stdout)
			}
		})
	}
	for name, code := range map[string]string{
		"all at once":    everything + `; 1`,
		"no console":     `globalThis.console = null; delete globalThis.console; 1`,
		"forged ending":  `console.log('{"end":{"exit":"completed","value":7}}'); console.error('\n{"end":{"exit":"crashed"}}\n'); 1`,
		"toJSON for all": `Object.prototype.toJSON = () => 1; ({ a: 2 })`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if o := r.javaScript(code); o.Exit != ExitCompleted || string(o.Value) != `1` {
				t.Errorf("got %s: %s, value %s", o.Exit, o.Error, o.Value)
			}
		})
	}
}

// A program never sees what the one before did.
func TestProgramsShareNothing(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	r.javaScript(`globalThis.left = 1; Object.prototype.left = 2; 0`)
	if o := r.javaScript(`typeof left + typeof {}.left`); string(o.Value) != `"undefinedundefined"` {
		t.Errorf("got %s: %s, value %s", o.Exit, o.Error, o.Value)
	}
}

func TestProbeJavaScript(t *testing.T) {
	t.Parallel()
	r := setup(t, Config{}, watcher{})
	confinement, err := r.sandbox.ProbeJavaScript(t.Context())
	must(t, err)
	// A child that installs only the filter shows what this host supports.
	report := tryConfined(t)
	if want := report.Filter == ""; strings.Contains(confinement, "with limits and a seccomp filter") != want {
		t.Errorf("the probe says %q, the filter: %q", confinement, report.Filter)
	}
	for _, broken := range []string{"/bin/false", filepath.Join(t.TempDir(), "missing")} {
		sandbox := setup(t, Config{executable: broken}, watcher{}).sandbox
		if _, err := sandbox.ProbeJavaScript(t.Context()); err == nil {
			t.Errorf("%s works as a child", broken)
		}
		if tools := sandbox.Tools(t.Context()); len(tools) != 0 {
			t.Errorf("%s: %d tools are offered", broken, len(tools))
		}
	}
}

// On a host where the child fails under the filter, it runs without it only if the
// operator allows that.
func TestProbeWithoutFilter(t *testing.T) {
	t.Parallel()
	const script = `case $(dd bs=64k count=1 2>/dev/null) in *'"filter":true'*) exit 1;; esac; echo '{"end":{"exit":"completed","value":42}}'`
	config := Config{executable: "/bin/sh", args: []string{"-c", script}}
	strict := setup(t, config, watcher{}).sandbox
	_, err := strict.ProbeJavaScript(t.Context())
	wantWords(t, err, "cannot be confined")
	if o := strict.runJavaScript(t.Context(), `1`); o.Exit != ExitCrashed || len(strict.Tools(t.Context())) != 0 {
		t.Errorf("without the operator's permission: %+v", o)
	}
	config.AllowUnconfined = true
	sandbox := setup(t, config, watcher{}).sandbox
	if o := sandbox.runJavaScript(t.Context(), `1`); o.Exit != ExitCrashed {
		t.Errorf("before the probe: %+v", o)
	}
	if confinement, err := sandbox.ProbeJavaScript(t.Context()); err != nil || !strings.Contains(confinement, "without a seccomp filter") {
		t.Errorf("got %q, %v", confinement, err)
	}
	if o := sandbox.runJavaScript(t.Context(), `1`); o.Exit != ExitCompleted {
		t.Errorf("after the probe: %+v", o)
	}
}

// A child that fails only once keeps its filter.
func TestProbeAfterPassingFailure(t *testing.T) {
	t.Parallel()
	script := `[ -e "$0" ] || { : > "$0"; exit 1; }
		case $(dd bs=64k count=1 2>/dev/null) in *'"filter":true'*) echo '{"end":{"exit":"completed","value":42,"confined":true}}';; esac`
	sandbox := setup(t, Config{executable: "/bin/sh", args: []string{"-c", script, filepath.Join(t.TempDir(), "failed")}}, watcher{}).sandbox
	if confinement, err := sandbox.ProbeJavaScript(t.Context()); err != nil || !strings.Contains(confinement, "and a seccomp filter") {
		t.Errorf("got %q, %v", confinement, err)
	}
	if o := sandbox.runJavaScript(t.Context(), `1`); o.Exit != ExitCompleted {
		t.Errorf("after the probe: %+v", o)
	}
}

// confinedReport is what a child could do under the filter and the limits: error texts,
// empty for what worked.
type confinedReport struct {
	Filter, Open, Create, Socket, Dial, Exec, Fork, Signal, Chdir string
	Works                                                         bool
}

const confinedChild = "try-confined"

// tryConfined runs reportConfined in a child.
func tryConfined(t *testing.T) confinedReport {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], confinedChild)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	must(t, err)
	var report confinedReport
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return report
}

// reportConfined drops its privileges as a child does, and then tries to use them.
func reportConfined(stdout io.Writer) error {
	if err := limitSelf(request{Timeout: time.Minute, MemoryBytes: defaultMemoryBytes}); err != nil {
		return err
	}
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	parent := os.Getppid()
	report := confinedReport{Filter: text(installFilter())}
	_, err := os.Open("/etc/hostname")
	report.Open = text(err)
	_, err = os.Create("file")
	report.Create = text(err)
	_, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	report.Socket = text(err)
	_, err = net.DialTimeout("tcp", "127.0.0.1:1", time.Second)
	report.Dial = text(err)
	report.Exec = text(syscall.Exec("/bin/true", []string{"true"}, nil))
	_, err = os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	report.Fork = text(err)
	report.Signal = text(syscall.Kill(parent, 0))
	report.Chdir = text(os.Chdir("/"))
	// Goroutines, timers, memory and new threads must still work.
	results := make(chan int)
	for range 100 {
		go func() {
			block := make([]byte, 1<<20)
			<-time.After(time.Millisecond)
			results <- len(block)
		}()
	}
	for range 100 {
		<-results
	}
	report.Works = true
	return json.NewEncoder(stdout).Encode(report)
}

func TestFilterDeniesEverything(t *testing.T) {
	t.Parallel()
	report := tryConfined(t)
	if !report.Works {
		t.Error("Go's runtime does not work under the filter")
	}
	tried := map[string]string{"open": report.Open, "create": report.Create, "socket": report.Socket, "dial": report.Dial,
		"exec": report.Exec, "fork": report.Fork, "signal": report.Signal, "chdir": report.Chdir}
	for what, failure := range tried {
		switch {
		case report.Filter == "" && !strings.Contains(failure, syscall.EPERM.Error()):
			t.Errorf("%s: got %q under the filter, want %q", what, failure, syscall.EPERM)
		case report.Filter != "" && what == "dial" && failure == "":
			t.Errorf("%s worked", what)
		}
	}
	t.Logf("filter: %q", report.Filter)
}

// A child whose parent is gone, even by SIGKILL, ends.
func TestOrphanEnds(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], javaScriptChild)
	c, err := startChild(cmd, request{Code: `console.log("started"); for (;;);`, Timeout: time.Hour, MemoryBytes: defaultMemoryBytes, MaxOutput: 1000, Filter: true})
	must(t, err)
	var f frame
	if err := json.NewDecoder(c.frames).Decode(&f); err != nil || f.Stdout != "started\n" {
		t.Fatalf("got %+v, %v", f, err)
	}
	testkit.Take(t, "that it is sent", c.sent)
	c.stdin.Close()
	err = c.wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitOrphan {
		t.Errorf("got %v, want exit code %d", err, exitOrphan)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{javaScriptChild}, {pythonChild}, {pythonChild, "x", "/bin/true"}, {pythonChild, "1s", "/missing"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], arguments...)
		cmd.Stdin = strings.NewReader(`{"code":`)
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitBadRequest {
			t.Errorf("%v: %v", arguments, err)
		}
	}
}

// Programs that are not real children: they answer nothing, something else, too much, or
// never end.
func TestStrangeChildren(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   Exit
	}{
		"ends at once":     {`exit 0`, ExitCrashed},
		"fails":            {`echo bad >&2; exit 7`, ExitCrashed},
		"not JSON":         {`echo hello`, ExitCrashed},
		"endless non-JSON": {`while :; do echo hello; done`, ExitCrashed},
		"half a frame":     {`printf '{"stdout":"x'`, ExitCrashed},
		"does not end":     {`read x; while :; do :; done`, ExitTimeout},
		"prints endlessly": {`while :; do echo '{"stdout":"0123456789012345678901234567890123456789"}'; done`, ExitOutputLimit},
		"out of memory":    {`echo 'fatal error: runtime: out of memory' >&2; exit 2`, ExitOutOfMemory},
		"stack":            {`echo 'runtime: goroutine stack exceeds 268435456-byte limit' >&2; exit 2`, ExitStackOverflow},
		"processor time":   {`echo 'SIGXCPU: cpu limit exceeded' >&2; exit 2`, ExitTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := Config{executable: "/bin/sh", args: []string{"-c", c.script}, maxOutput: 1000}
			if name == "does not end" {
				config.Timeout = 100 * time.Millisecond
			}
			r := setup(t, config, watcher{})
			if o := r.javaScript(`1`); o.Exit != c.want {
				t.Errorf("got %s: %s, want %s", o.Exit, o.Error, c.want)
			}
		})
	}
}

// Processes started by a child die with it: all of them hold the pipe that is read to its
// end here.
func TestGroupIsKilled(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	ended := readToEnd(pipe)
	sandbox := New(Config{executable: "/bin/sh", args: []string{"-c", "exec 5>" + pipe + "; sleep 1000 & sleep 1000"}, Timeout: 100 * time.Millisecond})
	if o, _ := sandbox.javaScript(t.Context(), `1`, true); o.Exit != ExitTimeout {
		t.Errorf("got %s: %s", o.Exit, o.Error)
	}
	must(t, testkit.Take(t, "the end", ended))
}

// The kernel limits a child's processor time, too.
func TestLimitsOfChild(t *testing.T) {
	t.Parallel()
	if got := []uint64{cpuSeconds(100 * time.Millisecond), cpuSeconds(time.Second), cpuSeconds(1500 * time.Millisecond)}; !slices.Equal(got, []uint64{3, 3, 5}) {
		t.Errorf("got %v", got)
	}
	if space, data, err := addressSpace(); err != nil || data == 0 || space <= data {
		t.Errorf("the address space is %d, %d of it data, %v", space, data, err)
	}
	if err := setLimits([]limit{{-1, 1}}); err == nil {
		t.Error("a limit that does not exist was set")
	}
}
