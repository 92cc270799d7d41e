package config

import (
	"strings"
	"testing"
)

func TestTextProviders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ   string
		want      string // all that can be chosen
		provider  string // the default
		wantError string
	}{
		{"", "simulator", "simulator", ""},
		{"OPENAI_API_KEY=sk-1", "openai simulator", "openai", ""},
		{"OPENAI_BASE_URL=http://127.0.0.1:1/v1", "openai simulator", "openai", ""},
		{"OPENAI_API_KEY=sk-1 VOICEBRIDGE_UPSTREAM=simulator", "openai simulator", "openai", ""},
		{"ANTHROPIC_API_KEY=k", "anthropic simulator", "anthropic", ""},
		{"GEMINI_API_KEY=k ANTHROPIC_API_KEY=k", "anthropic google simulator", "anthropic", ""},
		{"GEMINI_API_KEY=k VOICEBRIDGE_TEXT_PROVIDER=simulator", "google simulator", "simulator", ""},
		{"OLLAMA_HOST=box:1", "ollama simulator", "ollama", ""},
		{"VOICEBRIDGE_TEXT_PROVIDER=ollama", "ollama simulator", "ollama", ""},
		{"OPENAI_API_KEY=sk-1 OLLAMA_HOST=box:1 VOICEBRIDGE_TEXT_PROVIDER=ollama", "openai ollama simulator", "ollama", ""},
		{"VOICEBRIDGE_TEXT_PROVIDER=anthropic", "", "", "anthropic needs ANTHROPIC_API_KEY"},
		{"VOICEBRIDGE_TEXT_PROVIDER=openai", "", "", "openai needs OPENAI_API_KEY"},
		{"VOICEBRIDGE_TEXT_PROVIDER=google ANTHROPIC_API_KEY=k", "", "", "google needs GEMINI_API_KEY"},
		{"VOICEBRIDGE_TEXT_PROVIDER=gpt", "", "", "VOICEBRIDGE_TEXT_PROVIDER"},
		{"OLLAMA_HOST=ftp://x", "", "", "OLLAMA_HOST"},
		{"OPENAI_API_KEY=sk-1 VOICEBRIDGE_TEXT__OPENAI_API=chat", "openai simulator", "openai", ""},
		{"VOICEBRIDGE_TEXT__OPENAI_API=completions", "", "", "text.openai_api"},
	} {
		t.Run(c.environ, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(Sources{File: noFile(t), Environ: strings.Fields(c.environ)})
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) {
					t.Errorf("err %v", err)
				}
				return
			}
			must(t, err)
			if got := strings.Join(cfg.TextProviders(), " "); got != c.want || cfg.TextProvider() != c.provider {
				t.Errorf("providers %s, of which %s", got, cfg.TextProvider())
			}
			for _, name := range cfg.TextProviders() {
				if cfg.TextModel(name) == "" {
					t.Errorf("%s has no model", name)
				}
			}
		})
	}
}

func TestIsOpenAI(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"": true, "https://api.openai.com/v1/": true, "https://eu.api.openai.com/v1": true,
		"http://127.0.0.1:1/v1": false, "https://api.openai.com.example.org/v1": false, "https://notapi.openai.com": false, "https://x.openai.azure.com/openai/v1": false,
	} {
		cfg, err := Load(Sources{File: noFile(t), Environ: []string{"OPENAI_BASE_URL=" + address}})
		must(t, err)
		if cfg.IsOpenAI() != want {
			t.Errorf("IsOpenAI() of %q = %t", address, !want)
		}
	}
}
