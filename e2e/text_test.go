package e2e

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/thread"
)

// TestTypeAndExport exports by another process what the program has, while it runs and afterwards.
func TestTypeAndExport(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	server := launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	id := newThread(t, server.url)
	status, body := post(t, server.url+"/api/threads/"+id+"/messages", `{"content":"Draw me a chart, please."}`)
	if status != 200 || !strings.Contains(body, "Here is your chart") || !strings.Contains(body, `"type":"tool-create_bar_chart"`) {
		t.Fatalf("status %d, %s", status, body)
	}
	untilGet(t, server.url+"/metrics", `voicebridge_text_turns_total{provider="simulator",reason="stop"} 1`) // counted when the turn is over
	// While the server runs, and afterwards.
	for range 2 {
		for format, want := range map[string]string{"markdown": "## User · ", "json": `{"thread":{"id":"` + id} {
			code, out, errs := runCommand(t, environ, "export", id, "--format", format)
			if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "Draw me a chart") {
				t.Errorf("%s: code %d, %s%s", format, code, out, errs)
			}
		}
		testkit.Equal(t, server.terminate(), 0, "serve ended with: %s", server.stderr)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"export"}, 2, "<thread>"},
		{[]string{"export", id, "--format", "pdf"}, 2, "markdown"},
		{[]string{"export", "unknown"}, 1, "local has no thread unknown"},
		{[]string{"export", id, "--owner", "bob"}, 1, "bob has no thread"},
		{[]string{"export", id, "--database", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}, 1, "there is no database"},
	} {
		code, out, errs := runCommand(t, environ, c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: code %d, %s%s", c.args, code, out, errs)
		}
	}
	missing := filepath.Join(t.TempDir(), "none.db")
	runCommand(t, environ, "export", id, "--database", "sqlite:"+missing)
	if _, err := os.Stat(missing); err == nil {
		t.Error("export creates a database")
	}
}

// streamOf posts a message and returns the lines of its answer as a stream.
func streamOf(t *testing.T, url, body string) *bufio.Scanner {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Do(req)
	must(t, err)
	t.Cleanup(func() { _ = r.Body.Close() })
	return bufio.NewScanner(r.Body)
}

// TestStopWhileATurnRuns checks that a signal to the program ends the turn, that its reader is
// told, and that what was said is saved.
func TestStopWhileATurnRuns(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	server := launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	id := newThread(t, server.url)
	in := streamOf(t, server.url+"/api/threads/"+id+"/messages", `{"content":"Tell me a long story."}`)
	var chunks []string
	stopped := make(chan int, 1)
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			chunks = append(chunks, data)
		}
		if len(chunks) == 5 {
			chunks = append(chunks, "stop")
			go func() { stopped <- server.terminate() }()
		}
	}
	if n := len(chunks); n < 3 || chunks[n-1] != "[DONE]" || !slices.Contains(chunks, `{"type":"abort"}`) {
		t.Errorf("the stream ends with %v, err %v", chunks[max(0, n-4):], in.Err())
	}
	if code, _ := testkit.Receive(t, "the server's end", stopped); code != 0 {
		t.Errorf("serve ended with %d: %s", code, server.stderr)
	}
	code, out, errs := runCommand(t, environ, "export", id)
	if code != 0 || !strings.Contains(out, "· interrupted\n\nLet me ") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}

// TestSentAgainAfterACrash kills the server while it answers. The client, which got no answer, sends its message again: it
// is in the thread once, with one answer.
func TestSentAgainAfterACrash(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	server := launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	id := newThread(t, server.url)
	path, body := "/api/threads/"+id+"/messages", `{"content":"Tell me a long story.","idempotency_key":"k"}`
	in := streamOf(t, server.url+path, body)
	for in.Scan() && !strings.Contains(in.Text(), "text-delta") {
	}
	server.kill()
	server = launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	type answer struct {
		Message thread.Message `json:"message"`
	}
	var first, second answer
	server.postJSON(t, path, body, http.StatusOK, &first)
	server.postJSON(t, path, body, http.StatusOK, &second)
	if first.Message.Metadata.Status != thread.StatusCompleted || first.Message.ID != second.Message.ID {
		t.Errorf("the answers are %+v and %+v", first, second)
	}
	_, saved := get(t, server.url+path+"?current=true")
	if n, m := strings.Count(saved, `"role":"user"`), strings.Count(saved, `"role":"assistant"`); n != 1 || m != 1 {
		t.Errorf("the thread is %s", saved)
	}
}
