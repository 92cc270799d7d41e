package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/simulator"
	"voicebridge/web"
	"voicebridge/web/access"
)

func TestShownTextModels(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Sources{File: noFile(t), Environ: []string{"GEMINI_API_KEY=k", "OLLAMA_HOST=box:1", "VOICEBRIDGE_TEXT_PROVIDER=ollama", "VOICEBRIDGE_TEXT_MODEL=mine"}})
	must(t, err)
	want := []web.Model{
		{Provider: "google", Model: "gemini-flash-latest", Kind: "text"},
		{Provider: "ollama", Model: "mine", Kind: "text", Default: true},
		{Provider: "simulator", Model: simulator.Model, Kind: "text"},
	}
	testkit.Equal(t, shownTextModels(&cfg), want, "shownTextModels(&cfg)")
}

// TestProvidersGetTheirSettings asks each provider once and checks what it sends.
func TestProvidersGetTheirSettings(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		keys := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key")
		testkit.Equal(t, r.UserAgent(), "voicebridge/"+buildVersion(), "%s: the user agent", r.URL.Path)
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
		p, err := openProvider(&cfg, name, &http.Client{Transport: agent{}})
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
		got := testkit.Take(t, "seen", seen)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s sent %s, want %s", name, got, w)
			}
		}
	}
}

// TestOpenAIAPI: OpenAI itself is asked by the Responses API, another server by Chat Completions, unless the settings say otherwise.
func TestOpenAIAPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, api, want string }{
		{"http://api.openai.com/v1", "", "/v1/responses"},
		{"http://api.openai.com/v1", "chat", "/v1/chat/completions"},
		{"http://127.0.0.1/v1", "", "/v1/chat/completions"},
		{"http://127.0.0.1/v1", "responses", "/v1/responses"},
	} {
		cfg := config.Defaults()
		cfg.OpenAIBaseURL, cfg.Text.OpenAIAPI = c.base, c.api
		sent := ""
		p, err := openProvider(&cfg, config.ProviderOpenAI, &http.Client{Transport: elsewhere(func(r *http.Request) { sent = r.URL.Path })})
		must(t, err)
		for _, err := range p.Stream(t.Context(), llm.Request{Model: "model-1", Messages: []llm.Message{{Role: llm.RoleUser, Content: "hello"}}}) {
			if err == nil {
				t.Error("there is an answer")
			}
		}
		testkit.Equal(t, sent, c.want, "%s with %q: the request went", c.base, c.api)
	}
}

// elsewhere is a network on which nobody is.
type elsewhere func(*http.Request)

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	e(r)
	return nil, errors.New("nobody is there")
}
