package doctor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
)

// TestProviders asks each provider of text models for the model, with a right and a wrong key.
func TestProviders(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claude, gemini := r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key")
		switch path := r.URL.Path; {
		case claude == "canary", r.Header.Get("Authorization") == "Bearer canary":
			w.WriteHeader(http.StatusUnauthorized)
		case gemini == "canary":
			w.WriteHeader(http.StatusBadRequest) // as Google answers
		case claude == "spent":
			w.WriteHeader(http.StatusTooManyRequests)
		case path == "/v1/models/claude-1" && claude == "right" && r.Header.Get("Anthropic-Version") != "", path == "/v1beta/models/gemini-1" && gemini == "right":
			_, _ = w.Write([]byte(`{}`))
		case path == "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"mine"}]}`))
		case path == "/page/models":
			_, _ = w.Write([]byte("<html>"))
		case path == "/empty/models":
			_, _ = w.Write([]byte(`{"data":[]}`))
		case path == "/api/tags":
			_, _ = w.Write([]byte(`{"models":[{"name":"mine:latest"},{"name":"other:7b"}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	file := inFile(t, nil)
	for _, c := range []struct{ provider, environ, model, want string }{
		{"anthropic", "ANTHROPIC_API_KEY=right ANTHROPIC_BASE_URL=" + s.URL + "/v1/", "claude-1", "ok: typed messages by anthropic: " + s.URL + " answers and has the model claude-1"},
		{"anthropic", "ANTHROPIC_API_KEY=right ANTHROPIC_BASE_URL=" + s.URL, "claude-2", "warning: typed messages by anthropic: " + s.URL + " answers, but does not list the model claude-2"},
		{"anthropic", "ANTHROPIC_API_KEY=canary ANTHROPIC_BASE_URL=" + s.URL, "claude-1", "problem: typed messages by anthropic: " + s.URL + " refuses the key (401): is ANTHROPIC_API_KEY set"},
		{"anthropic", "ANTHROPIC_API_KEY=spent ANTHROPIC_BASE_URL=" + s.URL, "claude-1", "warning: typed messages by anthropic: " + s.URL + " answers that the key's limit"},
		{"openai", "OPENAI_API_KEY=right OPENAI_BASE_URL=" + s.URL + "/v1/", "mine", "ok: typed messages by openai: " + s.URL + "/v1 answers and has the model mine"},
		{"openai", "OPENAI_API_KEY=right OPENAI_BASE_URL=" + s.URL + "/v1", "other", "warning: typed messages by openai: " + s.URL + "/v1 answers, but does not list the model other"},
		{"openai", "OPENAI_API_KEY=right OPENAI_BASE_URL=" + s.URL + "/page", "mine", "problem: typed messages by openai: " + s.URL + "/page answers with something other than JSON: is OPENAI_BASE_URL right"},
		{"openai", "OPENAI_API_KEY=right OPENAI_BASE_URL=" + s.URL + "/empty", "mine", "ok: typed messages by openai: "},
		{"openai", "OPENAI_API_KEY=canary OPENAI_BASE_URL=" + s.URL + "/v1", "mine", "problem: typed messages by openai: " + s.URL + "/v1 refuses the key (401): is OPENAI_API_KEY set"},
		{"google", "GEMINI_API_KEY=right GEMINI_BASE_URL=" + s.URL + "/v1beta", "gemini-1", "ok: typed messages by google: "},
		{"google", "GEMINI_API_KEY=right GEMINI_BASE_URL=" + s.URL, "models/gemini-1", "ok: typed messages by google: "},
		{"google", "GEMINI_API_KEY=right GEMINI_BASE_URL=" + s.URL, "gemini-2", "warning: typed messages by google: "},
		{"google", "GEMINI_API_KEY=canary GEMINI_BASE_URL=" + s.URL, "gemini-1", "problem: typed messages by google: " + s.URL + " refuses the key (400): is GEMINI_API_KEY set"},
		{"ollama", "OLLAMA_HOST=" + s.URL, "mine", "ok: typed messages by ollama: "},
		{"ollama", "OLLAMA_HOST=" + s.URL, "other:7b", "ok: typed messages by ollama: "},
		{"ollama", "OLLAMA_HOST=" + s.URL, "other", "warning: typed messages by ollama: " + s.URL + " answers, but does not list the model other"},
	} {
		cfg, err := config.Load(config.Sources{File: file, Environ: append(strings.Fields(c.environ), "VOICEBRIDGE_TEXT_PROVIDER="+c.provider, "VOICEBRIDGE_TEXT_MODEL="+c.model)})
		testkit.Must(t, err)
		var got []string
		(&doctor{cfg: cfg, report: func(f finding) { got = append(got, f.String()) }}).typing(t.Context())
		if len(got) != 2 || !strings.HasPrefix(got[0], "ok: typed messages: they go to "+c.provider) || !strings.HasPrefix(got[1], c.want) || strings.Contains(got[1], "canary") {
			t.Errorf("%s with %s: got %q, want %q", c.provider, c.model, got, c.want)
		}
	}
}
