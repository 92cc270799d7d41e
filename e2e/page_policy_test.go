package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// prober is what a program could try if it got out of its engine, in a worker
// without anything but its policy. Each attempt answers with a word. What a policy
// does not close is left out, and taken away by the workers' scripts: a
// BroadcastChannel, and a worker of a blob, which makes Chromium itself hang.
const prober = `onmessage = async ({ data: home }) => {
	const tried = {};
	const attempt = async (name, run) => {
		const silence = new Promise((_, failed) => setTimeout(failed, 2000, { name: 'silence' }));
		try { tried[name] = String(await Promise.race([run(), silence])).slice(0, 60); } catch (thrown) { tried[name] = 'no: ' + thrown.name; }
	};
	const opened = (request) => new Promise((done, failed) => { request.onsuccess = () => done('opened'); request.onerror = () => failed(request.error); });
	const loaded = (worker) => new Promise((done, failed) => {
		worker.onmessage = () => done('ran');
		worker.onerror = () => failed(new TypeError('refused'));
	});
	await attempt('origin', () => self.origin);
	await attempt('fetch', () => fetch('/api/threads').then((r) => r.text()));
	await attempt('fetch with cookies', () => fetch(home + '/api/threads', { credentials: 'include' }).then((r) => r.text()));
	await attempt('blind fetch', () => fetch(home + '/api/threads', { mode: 'no-cors', credentials: 'include' }).then((r) => r.type));
	await attempt('request', () => new Promise((done, failed) => {
		const request = new XMLHttpRequest();
		request.onload = () => done(request.status);
		request.onerror = () => failed(new TypeError('refused'));
		request.open('GET', home + '/api/config');
		request.send();
	}));
	await attempt('script', () => { importScripts('/lib.js'); return 'ran'; });
	await attempt('module', () => import('/lib.js').then(() => 'ran'));
	await attempt('data module', () => import('data:text/javascript,1').then(() => 'ran'));
	await attempt('eval', () => eval('1 + 1'));
	await attempt('function', () => new Function('return 1')());
	await attempt('worker', () => loaded(new Worker('/lib.js')));
	await attempt('socket', () => new Promise((done, failed) => {
		const socket = new WebSocket(home.replace('http', 'ws') + '/api/threads/x/ws');
		socket.onopen = () => done('open');
		socket.onerror = () => failed(new TypeError('refused'));
	}));
	await attempt('events', () => new Promise((done, failed) => {
		const source = new EventSource(home + '/api/threads');
		source.onopen = () => done('open');
		source.onerror = () => failed(new TypeError('refused'));
	}));
	await attempt('database', () => opened(indexedDB.open('x')));
	await attempt('cache', () => caches.open('x').then(() => 'opened'));
	await attempt('files', () => navigator.storage.getDirectory().then(() => 'opened'));
	await attempt('python', () => fetch(home + '/pyodide/pyodide-lock.json').then((r) => r.status));
	postMessage(tried);
};`

// TestWorkerPolicies tries in a real browser what the policies of the workers'
// scripts let through, without the engines that stand before them.
func TestWorkerPolicies(t *testing.T) {
	t.Parallel()
	settings := fmt.Sprintf("tools: {code: {pyodide: %q}}\n", pyodideFolder(t))
	s := serveWith(t, persistencetest.SQLiteURL(t), simulator.Config{}, "VOICEBRIDGE_CONFIG="+write(t, settings))
	p := openBrowser(t, denied)
	p.violates = true
	for script, loads := range map[string]string{"javascript.js": "refused", "python.js": "200"} {
		elsewhere, asked := probing(t, s.url+"/worker/"+script)
		p.visit(t, elsewhere)
		tried := eval[map[string]string](t, p, fmt.Sprintf(`new Promise((done) => {
			const worker = new Worker('/probe.js');
			worker.onmessage = ({ data }) => done(data);
			worker.onerror = (event) => done({ failed: event.message });
			worker.postMessage(%q);
		})`, s.url))
		want := map[string]string{"origin": "null", "python": loads}
		for _, name := range []string{
			"fetch", "fetch with cookies", "blind fetch", "request", "script", "module", "data module", "eval", "function", "worker",
			"socket", "events", "database", "cache", "files",
		} {
			want[name] = "refused"
		}
		for name, word := range tried {
			if strings.HasPrefix(word, "no: ") {
				tried[name] = "refused"
			}
		}
		if d := cmp.Diff(want, tried); d != "" {
			t.Errorf("%s (-want +got):\n%s", script, d)
		}
		if got := asked(); !slices.Equal(got, []string{"/", "/probe.js"}) {
			t.Errorf("%s: the worker asked its server for %q", script, got)
		}
	}
	if found := p.problems.String(); !strings.Contains(found, "Content Security Policy") {
		t.Errorf("the browser says nothing of its refusals: %s", found)
	}
	for line := range strings.Lines(s.stderr.String()) {
		if strings.Contains(line, "path=/api/") && !strings.Contains(line, "path=/api/config") {
			t.Errorf("the worker reached the API: %s", line)
		}
	}
}

// probing serves a page and the prober with the policy of another script, and
// tells which paths were asked for.
func probing(t *testing.T, script string) (url string, asked func() []string) {
	t.Helper()
	res, err := http.Get(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	policy := res.Header.Get("Content-Security-Policy")
	var mu sync.Mutex
	paths := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths[r.URL.Path] = true
		mu.Unlock()
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><title>probing</title>`)
		case "/probe.js":
			w.Header().Set("Content-Type", "text/javascript")
			w.Header().Set("Content-Security-Policy", policy)
			fmt.Fprint(w, prober)
		default:
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "self.postMessage?.(1)")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		var out []string
		for path := range paths {
			out = append(out, path)
		}
		slices.Sort(out)
		return out
	}
}
