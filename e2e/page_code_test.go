package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/toolkit"
	"voicebridge/toolkit/code"
)

// program is one that the model has the page run.
type pageProgram struct {
	name, code string
	exit       code.Exit
	want       string // of the outcome, as text
}

// playing is a script in which typed words make the model run a program each.
func playing(t *testing.T, tool string, programs []pageProgram) simulator.Config {
	t.Helper()
	cfg := speaking(greets)
	for _, p := range programs {
		arguments, err := json.Marshal(map[string]string{"code": p.code})
		if err != nil {
			t.Fatal(err)
		}
		onPlease(cfg.Script, "Run "+p.name, tool, string(arguments))
	}
	return cfg
}

// runAll has the page run the programs one after the other and returns their
// outcomes.
func (p *tab) runAll(t *testing.T, s *rig, tool string, programs []pageProgram) []code.Outcome {
	t.Helper()
	var outcomes []code.Outcome
	for i, program := range programs {
		p.say(t, "Run "+program.name)
		p.until(t, "the end of the program "+program.name, fmt.Sprintf(
			`probe.all('tool-card').length === %d && probe.all('tool-card')[%d].dataset.state !== 'running'`, i+1, i))
		// The simulator answers the newest words: what is said into an answer is answered twice.
		p.until(t, "what the model says of "+program.name, `(({ dataset }) => dataset.role === 'assistant' &&
			dataset.status === 'completed' && dataset.draft === undefined)(probe.all('message').at(-1)) &&
			!probe.all('message').at(-1).querySelector('[data-testid=tool-card]')`)
		var rows []string
		eventually(t, "the saved outcome of "+program.name, func() bool {
			rows = s.rows(t, "SELECT name, executor, status, output FROM tool_calls WHERE status <> 'running' ORDER BY started_at")
			return len(rows) == i+1
		})
		fields := strings.SplitN(rows[len(rows)-1], " | ", 4)
		status := "failed"
		if program.exit == code.ExitCompleted {
			status = "done"
		}
		var o code.Outcome
		if err := json.Unmarshal([]byte(fields[3]), &o); err != nil {
			t.Fatalf("%s: %v: %.300s", program.name, err, fields[3])
		}
		outcomes = append(outcomes, o)
		if fields[0] != tool || fields[1] != "client" || fields[2] != status || o.Exit != program.exit || !strings.Contains(fields[3], program.want) {
			t.Errorf("%s: %.1000s", program.name, rows[len(rows)-1])
		}
	}
	return outcomes
}

// wantDeclared checks that the model was told of the page's tool what it is told
// of the server's.
func wantDeclared(t *testing.T, session *simulator.Session, want toolkit.Definition) {
	t.Helper()
	update, err := session.WaitFor(t.Context(), func(e realtime.Event) bool {
		return e.Type == realtime.TypeSessionUpdate && strings.Contains(string(e.Session), `"changeBrowserTheme"`) // the page's tools are in it
	})
	if err != nil {
		t.Fatal(err)
	}
	var sent struct{ Tools []toolkit.Definition }
	if err := json.Unmarshal(update.Session, &sent); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(sent.Tools, func(d toolkit.Definition) bool { return d.Name == want.Name })
	if i < 0 {
		t.Fatalf("the tool is not in %s", update.Session)
	}
	var got, wanted any
	if err := json.Unmarshal(sent.Tools[i].Parameters, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want.Parameters, &wanted); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Description, sent.Tools[i].Description) + cmp.Diff(wanted, got); d != "" {
		t.Errorf("the page's definition differs from the server's (-server +page):\n%s", d)
	}
}

const soundProgram = `const wait = (ms) => new Promise((done) => setTimeout(done, ms));
console.log("before", { a: [1, "é"] });
await wait(5);
console.error(new Map([["k", 1n]]));
({ sum: [0.1, 0.2].reduce((a, b) => a + b), when: new Date(0), nothing: undefined })`

// TestPageRunsJavaScript has the page run the model's programs: with the same
// outcome as the server's, and whatever they do, the call goes on.
func TestPageRunsJavaScript(t *testing.T) {
	t.Parallel()
	programs := []pageProgram{
		{"a sound one", soundProgram, code.ExitCompleted, `"stdout":"before { a: [ 1, \"é\" ] }\n"`},
		{"one that calls our API", `await fetch("/api/threads").then((r) => r.text())`, code.ExitException, "ReferenceError"},
		{
			"one that looks for a way out", `[typeof self, typeof window, typeof XMLHttpRequest, typeof WebSocket, typeof importScripts, typeof Worker, typeof indexedDB,
				typeof caches, typeof BroadcastChannel, typeof navigator, typeof postMessage, typeof process, (0, eval)("typeof fetch"),
				new Function("return typeof fetch")()].every((t) => t === "undefined")`, code.ExitCompleted, `"value":true`,
		},
		{"one that imports", `await import("/app/index.js")`, code.ExitException, ""},
		{"an endless one", `console.log("begun"); for (;;);`, code.ExitTimeout, `"stdout":"begun\n"`},
		{"a greedy one", `const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))`, code.ExitOutOfMemory, "used up its memory"},
		{"a deep one", `const f = () => f() + 1; f()`, code.ExitStackOverflow, ""},
		{"one that throws", `throw new RangeError("on purpose")`, code.ExitException, "RangeError: on purpose"},
		{"a noisy one", `for (;;) console.log("x".repeat(1000))`, code.ExitOutputLimit, "printed more than 65536 bytes"},
	}
	const settings = "tools: {approve: [changeBrowserTheme], code: {prefer_browser: true, timeout_seconds: 10, memory_mb: 32}}\n"
	s := serveWith(t, persistencetest.SQLiteURL(t), playing(t, code.JavaScriptName, programs),
		"VOICEBRIDGE_CONFIG="+write(t, settings))
	p := openBrowser(t, speaksOnce(t))
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLiveAndMute(t)
	wantDeclared(t, s.sim.Sessions()[0], code.JavaScriptDefinition())
	outcomes := p.runAll(t, s, code.JavaScriptName, programs)
	p.say(t, "Make it dark.") // a tool of the page waits for the user, too
	p.until(t, "the question", "probe.all('approval-dialog').length === 1")
	if dark := eval[bool](t, p, "document.documentElement.dataset.theme === 'dark'"); dark {
		t.Error("the page's tool ran before the user had said yes")
	}
	p.click(t, "approve")
	p.until(t, "the dark page", "document.documentElement.dataset.theme === 'dark'")
	p.say(t, chartWords) // the page and the call are alive
	p.untilMessage(t, "assistant voice completed", drawn)
	p.click(t, "hangup")
	p.untilOver(t)
	s.untilEnded(t, 1)

	if d := cmp.Diff(onServer(t, soundProgram), withoutTime(outcomes[0])); d != "" {
		t.Errorf("the page's outcome differs from the server's (-server +page):\n%s", d)
	}
}

func withoutTime(o code.Outcome) code.Outcome {
	o.DurationMs = 0
	return o
}

// onServer is the outcome of a program that the server runs.
func onServer(t *testing.T, program string) code.Outcome {
	t.Helper()
	sandbox, err := code.New(code.Config{})
	if err != nil {
		t.Fatal(err)
	}
	arguments, err := json.Marshal(map[string]string{"code": program})
	if err != nil {
		t.Fatal(err)
	}
	result := toolkit.Drain(sandbox.JavaScript().Call(t.Context(), toolkit.Call{Arguments: string(arguments)}), nil)
	var o code.Outcome
	if err := json.Unmarshal(result.Output, &o); err != nil {
		t.Fatalf("%v: %s", err, result.Error)
	}
	return withoutTime(o)
}

// pyodideFolder returns a folder with the Pyodide that the page's tests are made for:
// that of web/ui, or else one that is installed for this test.
func pyodideFolder(t *testing.T) string {
	t.Helper()
	const installed = "../web/ui/node_modules/pyodide"
	if _, err := os.Stat(filepath.Join(installed, "pyodide.mjs")); err == nil {
		folder, err := filepath.Abs(installed)
		if err != nil {
			t.Fatal(err)
		}
		return folder
	}
	var manifest struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	raw, err := os.ReadFile("../web/ui/package.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder,
		"pyodide@"+manifest.DevDependencies["pyodide"])
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("Pyodide is missing: run `npm ci` in web/ui (`make test` does). Installing it for this test failed: %v\n%s", err, out)
	}
	return filepath.Join(folder, "node_modules", "pyodide")
}

const soundPython = `import json, asyncio, sys
print("before", {"a": [1, "é"]})
await asyncio.sleep(0.01)
print("warned", file=sys.stderr)
{"sum": 0.1 + 0.2, "set": {1}, "big": 10 ** 20}`

const greedyPython = `taken = []
try:
    while len(taken) < 10: taken.append(bytearray(10 ** 8))
except MemoryError:
    taken = len(taken)
print("all", taken)
assert 0 < taken < 6
1 / 0`

// The engine's worker has nobody's origin, and no way out of it.
const hostilePython = `import js
from pyodide.http import pyfetch
found = [n for n in ("fetch", "XMLHttpRequest", "WebSocket", "importScripts", "Worker", "indexedDB", "caches", "BroadcastChannel",
    "navigator", "postMessage") if getattr(js, n, None) is not None] + [js.self.origin]
try:
    found.append(await (await pyfetch("/api/threads")).string())
except Exception as error:
    found.append(type(error).__name__)
found`

// TestPageRunsPython has the page run the model's Python, which the server has
// not.
func TestPageRunsPython(t *testing.T) {
	t.Parallel()
	programs := []pageProgram{
		{
			"a sound one", soundPython, code.ExitCompleted,
			`"stdout":"before {'a': [1, 'é']}\n","stderr":"warned\n","value":{"sum":0.30000000000000004,"set":"{1}","big":100000000000000000000}`,
		},
		{"one that takes all and throws", greedyPython, code.ExitException, "ZeroDivisionError: division by zero"},
		{"an endless one", "print('begun')\nwhile True: pass", code.ExitTimeout, `"stdout":"begun\n"`},
		{"one that looks for a way out", hostilePython, code.ExitCompleted, `"value":["null","NameError"]`},
	}
	settings := fmt.Sprintf("tools: {code: {pyodide: %q, timeout_seconds: 30}}\n", pyodideFolder(t))
	s := serveWith(t, persistencetest.PostgresURL(t), playing(t, code.PythonName, programs), "VOICEBRIDGE_CONFIG="+write(t, settings))
	p := openBrowser(t, speaksOnce(t))
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLiveAndMute(t)
	wantDeclared(t, s.sim.Sessions()[0], code.PythonDefinition())
	p.runAll(t, s, code.PythonName, programs)
	p.say(t, chartWords)
	p.untilMessage(t, "assistant voice completed", drawn)
	p.click(t, "hangup")
	p.untilOver(t)
	s.untilEnded(t, 1)
}

// TestClientTools asks the server which tools the page is to run. The server has
// its own all the same, for clients that declare none.
func TestClientTools(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]struct {
		config string
		server bool
	}{
		"{}": {`"client_tools":[],"code":{"timeout_ms":10000,"memory_bytes":67108864,"pyodide":""}`, true},
		"tools: {code: {prefer_browser: true, timeout_seconds: 3, memory_mb: 8}}": {
			`"client_tools":["mini-javascript-execution"],"code":{"timeout_ms":3000,"memory_bytes":8388608,"pyodide":""}`, true,
		},
		"tools: {code: {prefer_browser: true}, allow: [mini-javascript-execution]}": {`"client_tools":["mini-javascript-execution"],`, true},
		"tools: {code: {prefer_browser: true}, toolkits: [artifacts]}":              {`"client_tools":[],`, false},
		"tools: {code: {prefer_browser: true}, deny: [mini-javascript-execution]}":  {`"client_tools":[],`, false},
		"tools: {code: {prefer_browser: true}, allow: [createTable]}":               {`"client_tools":[],`, false},
		"tools: {code: {pyodide: https://cdn.example/v1}}": {
			`"client_tools":["python-execution"],"code":{"timeout_ms":10000,"memory_bytes":67108864,"pyodide":"https://cdn.example/v1/"}`, true,
		},
		"tools: {code: {pyodide: https://cdn.example/v1, prefer_browser: true}}":     {`"client_tools":["mini-javascript-execution","python-execution"],`, true},
		"tools: {code: {pyodide: https://cdn.example/v1}, deny: [python-execution]}": {`"client_tools":[],`, true},
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			s := launch(t, environment(t, "VOICEBRIDGE_CONFIG="+write(t, settings+"\n")))
			if _, body := get(t, s.url+"/api/config"); !strings.Contains(body, want.config) {
				t.Errorf("got %s, want %s", body, want.config)
			}
			if _, body := get(t, s.url+"/api/tools"); strings.Contains(body, code.JavaScriptName) != want.server {
				t.Errorf("the server's tools are %.300s", body)
			}
		})
	}
}
