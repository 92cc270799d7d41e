package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/llm/anthropic"
	"voicebridge/llm/google"
	"voicebridge/llm/ollama"
	"voicebridge/llm/openai"
	"voicebridge/llm/simulator"
	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/web"
)

// The names of the providers of text, in the order in which the first that is
// configured is taken.
const (
	providerOpenAI    = "openai"
	providerAnthropic = "anthropic"
	providerGoogle    = "google"
	providerOllama    = "ollama"
	providerSimulator = simulator.Name
)

// simulatorPace is how fast the simulator writes: as fast as a model, so that an
// answer can be watched and interrupted.
const simulatorPace = 30 * time.Millisecond

// textModels are the models of the providers where text.model says nothing.
var textModels = map[string]string{
	providerOpenAI: "gpt-5.4-mini", providerAnthropic: "claude-sonnet-5", providerGoogle: "gemini-flash-latest",
	providerOllama: "llama3.2", providerSimulator: simulator.Model,
}

// textProviders returns the providers that are configured, in their order, the
// simulator as the last.
func (c *config) textProviders() []string {
	var out []string
	for _, p := range []struct {
		name string
		set  bool
	}{
		{providerOpenAI, c.Secrets.OpenAIKey.IsSet() || c.OpenAIBaseURL != openAIBaseURL},
		{providerAnthropic, c.Secrets.AnthropicKey.IsSet() || c.AnthropicBaseURL != ""},
		{providerGoogle, c.Secrets.GeminiKey.IsSet() || c.GeminiBaseURL != ""},
		{providerOllama, c.OllamaHost != "" || c.Text.Provider == providerOllama},
		{providerSimulator, true},
	} {
		if p.set {
			out = append(out, p.name)
		}
	}
	return out
}

// textModel is the model of a provider that answers unless told otherwise.
func (c *config) textModel(provider string) string {
	if c.Text.Model != "" && provider == c.textProvider() {
		return c.Text.Model
	}
	return textModels[provider]
}

// shownTextModels are the models of typed messages, as clients are told them.
func (c *config) shownTextModels() []web.Model {
	var out []web.Model
	for _, name := range c.textProviders() {
		out = append(out, web.Model{Provider: name, Model: c.textModel(name), Kind: web.ModelText, Default: name == c.textProvider()})
	}
	return out
}

// textProvider is the one that answers unless told otherwise.
func (c *config) textProvider() string { return cmp.Or(c.Text.Provider, c.textProviders()[0]) }

// openProvider makes the provider of a name.
func (c *config) openProvider(name string) (llm.Provider, error) {
	s := &c.Secrets
	switch name {
	case providerOpenAI:
		// Only OpenAI's own models insist on the new name of the limit.
		u, err := url.Parse(c.OpenAIBaseURL)
		compatible := err == nil && u.Hostname() != "api.openai.com"
		return openai.New(openai.Config{BaseURL: c.OpenAIBaseURL, APIKey: s.OpenAIKey.Reveal(), LegacyMaxTokens: compatible})
	case providerAnthropic:
		return anthropic.New(anthropic.Config{BaseURL: c.AnthropicBaseURL, APIKey: s.AnthropicKey.Reveal()})
	case providerGoogle:
		return google.New(google.Config{BaseURL: c.GeminiBaseURL, APIKey: s.GeminiKey.Reveal()})
	case providerOllama:
		// Room for the history and the answer: the server's own default cuts.
		return ollama.New(ollama.Config{Host: c.OllamaHost, NumCtx: 2 * c.Conversations.History.MaxTokens})
	case providerSimulator:
		return simulator.New(simulator.Config{
			Pace: simulatorPace, TitlePrompt: chat.TitleInstructions, ShortTitlePrompt: chat.ShortTitleInstructions,
		}), nil
	default:
		return nil, fmt.Errorf("there is no provider %q", name)
	}
}

// openChat makes the coordinator of text turns with all providers that are
// configured, and of it the tool by which calls ask the agent.
func openChat(cfg config, store *persistence.Store, tools *tools, observers []chat.TurnObserver, log *slog.Logger) (*chat.Coordinator, error) {
	h := cfg.Conversations.History
	out := chat.Config{
		Store: store, Provider: cfg.textProvider(), Models: map[string]string{},
		Tools:         tools.registry,
		ApproveTools:  cfg.Tools.Approve,
		ToolLimits:    toolkit.RouterConfig{Timeout: time.Duration(cfg.Tools.TimeoutSeconds) * time.Second, Logger: log},
		Instructions:  cfg.Text.Instructions,
		History:       chat.HistoryConfig{MaxTurns: h.MaxTurns, MaxTokens: h.MaxTokens, TrimChunkTokens: h.TrimChunkTokens},
		MaxTokens:     cfg.Text.MaxTokens,
		FirstByte:     time.Duration(cfg.Text.TimeoutSeconds) * time.Second,
		MaxToolRounds: h.MaxToolRounds,
		NoTitles:      !cfg.Conversations.Queue.AutoGenerateTitles,
		Observers:     observers,
		Cost:          cfg.textCost,
		Logger:        log,
	}
	if cfg.Text.Memories {
		out.Context = &chat.Clock{Memories: store}
	}
	for _, name := range cfg.textProviders() {
		p, err := cfg.openProvider(name)
		if err != nil {
			return nil, fmt.Errorf("open provider %s: %w", name, err)
		}
		out.Providers = append(out.Providers, p)
		out.Models[name] = cfg.textModel(name)
	}
	c, err := chat.New(out)
	if err != nil {
		return nil, err
	}
	if slices.Contains(cfg.Tools.Toolkits, toolkitAgent) {
		tools.agent = c.AskAgent()
	}
	log.Info("typed messages", "provider", out.Provider, "model", out.Models[out.Provider])
	return c, nil
}

// checkText says what is wrong with the settings of text.
func (c *config) checkText(w *checks) {
	w.oneOf("text.provider", c.Text.Provider, "", providerOpenAI, providerAnthropic, providerGoogle, providerOllama, providerSimulator)
	for key, value := range map[string]string{"anthropic_base_url": c.AnthropicBaseURL, "gemini_base_url": c.GeminiBaseURL} {
		if value != "" {
			w.httpURL(key, value)
		}
	}
	if c.OllamaHost != "" {
		if _, err := ollama.New(ollama.Config{Host: c.OllamaHost}); err != nil {
			w.wrong("ollama_host", "%v", err)
		}
	}
	w.between("text.max_tokens", c.Text.MaxTokens, 0, 1_000_000)
	w.between("text.timeout_seconds", c.Text.TimeoutSeconds, 1, 600)
	if len(c.Text.Instructions) > maxInstructions {
		w.wrong("text.instructions", "it is longer than 32 KiB")
	}
	keys := map[string]string{providerOpenAI: "OPENAI_API_KEY", providerAnthropic: "ANTHROPIC_API_KEY", providerGoogle: "GEMINI_API_KEY"}
	if name, ok := keys[c.Text.Provider]; ok && !slices.Contains(c.textProviders(), c.Text.Provider) {
		w.wrong("text.provider", "%s needs %s", c.Text.Provider, name)
	}
}
