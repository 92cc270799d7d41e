package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/simulator"
)

// The names of the text providers, in order of preference.
const (
	ProviderOpenAI    = "openai"
	ProviderAnthropic = "anthropic"
	ProviderGoogle    = "google"
	ProviderOllama    = "ollama"
	ProviderSimulator = simulator.Name
)

// textModels are the providers' models if text.model is empty.
var textModels = map[string]string{
	ProviderOpenAI: "gpt-5.4-mini", ProviderAnthropic: "claude-sonnet-5", ProviderGoogle: "gemini-flash-latest",
	ProviderOllama: "llama3.2", ProviderSimulator: simulator.Model,
}

// TextProviders returns the configured providers in order of preference, the simulator last.
func (c *Config) TextProviders() []string {
	var out []string
	for _, p := range []struct {
		name string
		set  bool
	}{
		{ProviderOpenAI, c.Secrets.OpenAIKey.IsSet() || c.OpenAIBaseURL != openAIURL},
		{ProviderAnthropic, c.Secrets.AnthropicKey.IsSet() || c.AnthropicBaseURL != ""},
		{ProviderGoogle, c.Secrets.GeminiKey.IsSet() || c.GeminiBaseURL != ""},
		{ProviderOllama, c.OllamaHost != "" || c.Text.Provider == ProviderOllama},
		{ProviderSimulator, true},
	} {
		if p.set {
			out = append(out, p.name)
		}
	}
	return out
}

// TextModel returns the default model of a provider.
func (c *Config) TextModel(provider string) string {
	if c.Text.Model != "" && provider == c.TextProvider() {
		return c.Text.Model
	}
	return textModels[provider]
}

// TextRules returns what the settings say about what models accept.
func (c *Config) TextRules() []llm.Rule {
	var rules []llm.Rule
	for _, a := range c.Text.Accepts {
		rules = append(rules, llm.Rule{Models: []string{strings.ToLower(a.Model)}, Accepts: llm.Accepts{
			NoTools: a.NoTools, NoImages: a.NoImages, NoTemperature: a.NoTemperature, NoTopP: a.NoTopP,
			NoStreamOptions: a.NoStreamOptions, NoReasoning: a.NoReasoning, QuietWithTools: a.QuietWithTools,
			NewLimit: a.NewLimit, ThinksUnasked: a.ThinksUnasked, ContextTokens: a.ContextTokens,
		}})
	}
	return rules
}

// TextProvider returns the default provider.
func (c *Config) TextProvider() string { return cmp.Or(c.Text.Provider, c.TextProviders()[0]) }

// IsOpenAI reports whether OpenAIBaseURL is OpenAI itself, in any region, and not a compatible server.
func (c *Config) IsOpenAI() bool {
	u, err := url.Parse(c.OpenAIBaseURL)
	return err == nil && (u.Hostname() == openAIHost || strings.HasSuffix(u.Hostname(), "."+openAIHost))
}

// checkText checks the settings of text.
func (c *Config) checkText(w *checks) { c.checkProvider(w, "text.provider", c.Text.Provider) }

// checkProvider checks that the text provider that a setting names is configured.
func (c *Config) checkProvider(w *checks, key, provider string) {
	keys := map[string]string{
		ProviderOpenAI: "OPENAI_API_KEY", ProviderAnthropic: "ANTHROPIC_API_KEY", ProviderGoogle: "GEMINI_API_KEY",
	}
	if name, ok := keys[provider]; ok && !slices.Contains(c.TextProviders(), provider) {
		w.wrong(key, "%s needs %s", provider, name)
	}
}
