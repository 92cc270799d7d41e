package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// hookSite is an app written with the AI SDK's useRealtime: its page, and its server, which alone has a token.
func hookSite(t *testing.T, api func() (base, token, certificate string)) *httptest.Server {
	t.Helper()
	folder, script := clients(t), filepath.Join(t.TempDir(), "realtime.js")
	build := command(t, filepath.Join(folder, "node_modules/.bin/esbuild"), nil, "realtime.jsx", "--bundle", "--jsx=automatic", "--log-level=warning", "--outfile="+script)
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	site := http.NewServeMux()
	site.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!doctype html><meta charset="utf-8"><title>An app</title><link rel="icon" href="data:,"><body><script src="/realtime.js"></script>`)
	})
	site.HandleFunc("GET /realtime.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	site.HandleFunc("GET /voice.wav", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, voice) })
	site.HandleFunc("POST /api/setup", func(w http.ResponseWriter, r *http.Request) {
		base, token, certificate := api()
		setup := exec.CommandContext(r.Context(), "node", "realtime-setup.mjs", base, token)
		setup.Dir, setup.Stdin, setup.Env = folder, r.Body, append(setup.Environ(), "NODE_EXTRA_CA_CERTS="+certificate)
		var errs bytes.Buffer
		setup.Stderr = &errs
		out, err := setup.Output()
		if err != nil {
			t.Errorf("the app's server: %v\n%s", err, errs.Bytes())
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)
	})
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	return server
}

// TestUseRealtime calls with the AI SDK's hook in a browser, over wss with a secret in a subprotocol: what is said and
// answered is in its messages and on the thread, and a tool of the page runs.
func TestUseRealtime(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-app-0123456789"
	https, _, certificate := certified(t)
	var s *program
	site := hookSite(t, func() (string, string, string) { return s.url + "/v1", token, certificate })
	database := persistencetest.SQLiteURL(t)
	s = launch(t, environment(t, append(https, "DATABASE_URL="+database, "VOICEBRIDGE_API_TOKENS=app:"+token, "VOICEBRIDGE_ALLOWED_ORIGINS="+site.URL)...))
	p := ownBrowser(t, append(fakeDevice(t), chromedp.Flag("ignore-certificate-errors", true))...)
	p.visit(t, site.URL)
	p.until(t, "the page", "window.client !== undefined")
	eval[any](t, p, "client.call().then(() => null)")
	p.until(t, "a connection", "client.status === 'connected' || client.seen.errors.length > 0")
	eval[any](t, p, "client.listen().then(() => null)")
	said := func(words string) {
		t.Helper()
		p.until(t, words, fmt.Sprintf("client.said.some((line) => line.startsWith(%q))", words))
	}
	said("user: " + heardWords)
	said("assistant: " + greeting)
	p.until(t, "silence", "!client.isPlaying")
	eval[any](t, p, "client.stopAudioCapture() ?? null")
	eval[any](t, p, `client.sendTextMessage("Make the page dark, please.") ?? null`)
	said("assistant: I have changed the colours of the page for you.")
	testkit.Equal(t, eval[[]string](t, p, "client.seen.ran"), []string{`changeBrowserTheme {"theme":"dark"}`}, "the page has run")
	if errors := eval[[]string](t, p, "client.seen.errors"); len(errors) > 0 {
		t.Errorf("the hook reports %q", errors)
	}
	if types := eval[[]string](t, p, "client.types"); !slices.Contains(types, "session-updated") || !slices.Contains(types, "audio-delta") || !slices.Contains(types, "response-done") {
		t.Errorf("the hook has seen %q", types)
	}
	eval[any](t, p, "client.disconnect() ?? null")
	testkit.Eventually(t, "the end of the call", func() bool {
		return len(persistencetest.Rows(t, database, "SELECT id FROM calls WHERE ended_at IS NOT NULL")) == 1
	})
	var lines []string
	for _, row := range persistencetest.Rows(t, database, "SELECT role, source, text FROM conversation_transcript ORDER BY position") {
		lines = append(lines, strings.Join(row, " "))
	}
	want := []string{"user voice " + heardWords, "assistant voice " + greeting, "user text Make the page dark, please.", "tool voice changeBrowserTheme", "assistant voice I have changed the colours of the page for you."}
	if !slices.EqualFunc(lines, want, strings.HasPrefix) {
		t.Errorf("the thread:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
