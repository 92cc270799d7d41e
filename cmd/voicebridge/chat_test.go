package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/llm"
	"voicebridge/llm/simulator"
	"voicebridge/persistence"
	"voicebridge/web"
	"voicebridge/web/access"
)

func TestShownTextModels(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Sources{File: noFile(t), Environ: []string{"GEMINI_API_KEY=k", "OLLAMA_HOST=box:1", "VOICEBRIDGE_TEXT_PROVIDER=ollama", "VOICEBRIDGE_TEXT_MODEL=mine"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []web.Model{
		{Provider: "google", Model: "gemini-flash-latest", Kind: "text"},
		{Provider: "ollama", Model: "mine", Kind: "text", Default: true},
		{Provider: "simulator", Model: simulator.Model, Kind: "text"},
	}
	if got := shownTextModels(&cfg); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestProvidersGetTheirSettings asks each provider once and looks at what it sends.
func TestProvidersGetTheirSettings(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		keys := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key")
		seen <- r.URL.Path + " " + keys + " " + string(body)
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	cfg := config.Defaults()
	cfg.OpenAIBaseURL, cfg.AnthropicBaseURL, cfg.GeminiBaseURL, cfg.OllamaHost = server.URL+"/v1", server.URL, server.URL, server.URL
	cfg.Secrets.OpenAIKey, cfg.Secrets.AnthropicKey, cfg.Secrets.GeminiKey = access.NewSecret("key-o"), access.NewSecret("key-a"), access.NewSecret("key-g")
	for name, want := range map[string][]string{
		config.ProviderOpenAI:    {"/v1/chat/completions Bearer key-o ", `"max_tokens":7`},
		config.ProviderAnthropic: {"/v1/messages key-a ", "model-1"},
		config.ProviderGoogle:    {"model-1:streamGenerateContent key-g "},
		config.ProviderOllama:    {"/api/chat  ", `"num_ctx":16000`},
	} {
		p, err := openProvider(&cfg, name)
		if err != nil || p.Name() != name {
			t.Fatalf("%s: provider %v, %v", name, p, err)
		}
		request := llm.Request{Model: "model-1", Messages: []llm.Message{{Role: llm.RoleUser, Content: "hello"}}, MaxTokens: 7}
		for _, err = range p.Stream(t.Context(), request) {
			if err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		got := <-seen
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s sent %s, want %s", name, got, w)
			}
		}
	}
}

// post sends JSON and returns the answer's status and body.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(data)
}

func newThread(t *testing.T, url string) string {
	t.Helper()
	status, body := post(t, url+"/api/threads", "{}")
	var thread persistence.Thread
	if err := json.Unmarshal([]byte(body), &thread); err != nil || status != 201 {
		t.Fatalf("status %d, %s", status, body)
	}
	return thread.ID
}

func TestTypeAndExport(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	server := start(t, environ, "--listen", "127.0.0.1:0")
	id := newThread(t, server.url)
	status, body := post(t, server.url+"/api/threads/"+id+"/messages", `{"content":"Draw me a chart, please."}`)
	if status != 200 || !strings.Contains(body, "Here is your chart") || !strings.Contains(body, `"type":"tool-create_bar_chart"`) {
		t.Fatalf("status %d, %s", status, body)
	}
	if _, figures := get(t, server.url+"/metrics"); !strings.Contains(figures, `voicebridge_text_turns_total{provider="simulator",reason="stop"} 1`) {
		t.Error("the turn is not counted")
	}
	// While the server runs, and after it.
	for range 2 {
		for format, want := range map[string]string{"markdown": "## User · ", "json": `{"thread":{"id":"` + id, "srt": "00:00:00,000 --> "} {
			code, out, errs := failing(t, environ, "export", id, "--format", format)
			if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "Draw me a chart") {
				t.Errorf("%s: code %d, %s%s", format, code, out, errs)
			}
		}
		if code := server.stop(); code != 0 {
			t.Errorf("serve ended with %d: %s", code, server.stderr)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"export"}, 2, "<thread>"},
		{[]string{"export", id, "--format", "pdf"}, 2, "markdown"},
		{[]string{"export", "unknown"}, 1, "local has no thread unknown"},
		{[]string{"export", "a\x00b"}, 1, "no thread"},
		{[]string{"export", id, "--owner", "bob"}, 1, "bob has no thread"},
		{[]string{"export", id, "--database", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}, 1, "there is no database"},
	} {
		code, out, errs := failing(t, environ, c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: code %d, %s%s", c.args, code, out, errs)
		}
	}
	missing := filepath.Join(t.TempDir(), "none.db")
	failing(t, environ, "export", id, "--database", "sqlite:"+missing)
	if _, err := os.Stat(missing); err == nil {
		t.Error("export makes a database")
	}
}

// TestStopWhileATurnRuns checks that the end of the server ends the turn, that
// its reader is told, and that what was said is saved.
func TestStopWhileATurnRuns(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	server := start(t, environ, "--listen", "127.0.0.1:0")
	id := newThread(t, server.url)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url+"/api/threads/"+id+"/messages", strings.NewReader(`{"content":"Tell me a long story."}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	in := bufio.NewScanner(r.Body)
	var chunks []string
	stopped := make(chan int, 1)
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			chunks = append(chunks, data)
		}
		if len(chunks) == 5 {
			chunks = append(chunks, "stop")
			go func() { stopped <- server.stop() }()
		}
	}
	if n := len(chunks); n < 3 || chunks[n-1] != "[DONE]" || !slices.Contains(chunks, `{"type":"abort"}`) {
		t.Errorf("the stream ends with %v, err %v", chunks[max(0, n-4):], in.Err())
	}
	select {
	case code := <-stopped:
		if code != 0 {
			t.Errorf("serve ended with %d: %s", code, server.stderr)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end")
	}
	code, out, errs := failing(t, environ, "export", id)
	if code != 0 || !strings.Contains(out, "· interrupted\n\nLet me ") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}
