package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/llm"
	"voicebridge/llm/anthropic"
	"voicebridge/llm/google"
	"voicebridge/llm/ollama"
	"voicebridge/llm/openai"
	"voicebridge/llm/simulator"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/toolkit"
	"voicebridge/web"
)

// simulatorPace is the simulator's pause before each word, which makes it about as fast as a model, so
// that users can watch and interrupt an answer.
const simulatorPace = 30 * time.Millisecond

// shownTextModels lists the text models that clients may choose from.
func shownTextModels(c *config.Config) []web.Model {
	var out []web.Model
	for _, name := range c.TextProviders() {
		out = append(out, web.Model{
			Provider: name, Model: c.TextModel(name), Kind: web.ModelText, Default: name == c.TextProvider(),
		})
	}
	return out
}

// openProvider makes the provider with that name.
func openProvider(c *config.Config, name string, client *http.Client) (llm.Provider, error) {
	s := &c.Secrets
	switch name {
	case config.ProviderOpenAI:
		return openai.New(openai.Config{
			BaseURL: c.OpenAIBaseURL, APIKey: s.OpenAIKey.Reveal(), Compatible: !c.IsOpenAI(), API: openai.API(c.Text.OpenAIAPI),
			HTTPClient: client, Rules: c.TextRules(),
		})
	case config.ProviderAnthropic:
		return anthropic.New(anthropic.Config{
			BaseURL: c.AnthropicBaseURL, APIKey: s.AnthropicKey.Reveal(), Cache: true, HTTPClient: client, Rules: c.TextRules(),
		})
	case config.ProviderGoogle:
		return google.New(google.Config{
			BaseURL: c.GeminiBaseURL, APIKey: s.GeminiKey.Reveal(), HTTPClient: client, Rules: c.TextRules(),
		})
	case config.ProviderOllama:
		// Room for the history and the answer: the server's default truncates.
		return ollama.New(ollama.Config{
			Host: c.OllamaHost, APIKey: s.OllamaKey.Reveal(), NumCtx: 2 * c.Conversations.History.MaxTokens, HTTPClient: client,
			Rules: c.TextRules(),
		})
	case config.ProviderSimulator:
		return simulator.New(simulator.Config{
			Pace: simulatorPace, TitlePrompt: chat.TitleInstructions, ShortTitlePrompt: chat.ShortTitleInstructions,
		}), nil
	default:
		return nil, fmt.Errorf("there is no provider %q", name)
	}
}

// openChat makes the coordinator of text turns with all configured providers, and the tool by which
// calls request text turns.
func openChat(
	cfg config.Config, store *persistence.Store, writer *spool.Writer, tools *tools, observers []chat.TurnObserver,
	ran func(toolkit.Report), log *slog.Logger,
) (*chat.Coordinator, error) {
	h := cfg.Conversations.History
	out := chat.Config{
		Store: store, Writer: writer, Provider: cfg.TextProvider(), Models: map[string]string{},
		Tools:         tools.registry,
		UserName:      cfg.UserName,
		ApproveTools:  cfg.Tools.Approve,
		ToolLimits:    toolkit.RouterConfig{Timeout: cfg.Tools.Timeout, Observe: ran, Logger: log},
		ImageQuota:    cfg.ImageQuota(),
		TurnsPerOwner: cfg.TurnsPerOwner(),
		Settings:      cfg.Text.Settings,
		History:       h.HistoryConfig,
		MaxToolRounds: h.MaxToolRounds,
		NoTitles:      !cfg.Conversations.AutoGenerateTitles,
		Observers:     observers,
		Cost:          cfg.TextCost,
		Logger:        log,
	}
	out.SpokenInstructions = cfg.Text.Spoken()
	for _, name := range cfg.TextProviders() {
		p, err := openProvider(&cfg, name, &http.Client{Transport: agent{}})
		if err != nil {
			return nil, fmt.Errorf("open provider %s: %w", name, err)
		}
		out.Providers = append(out.Providers, p)
		out.Models[name] = cfg.TextModel(name)
	}
	c, err := chat.New(out)
	if err != nil {
		return nil, err
	}
	tools.delegated = cfg.DelegatesToChat()
	if tools.delegated || slices.Contains(cfg.Tools.Toolkits, config.ToolkitAgent) {
		tools.agent = c.AskAgent()
	}
	name := out.Provider
	log.Info("typed messages", "provider", name, "model", out.Models[name])
	if name != config.ProviderOllama && cfg.TextCost(name, out.Models[name], llm.Usage{InputTokens: 1}) == nil {
		log.Warn("the cost of typed messages is unknown: the model has no price per token", "model", out.Models[name])
	}
	return c, nil
}

// openQueue makes the message queue.
func (a *app) openQueue(context.Context) error {
	cfg := a.cfg.Conversations.Queue
	cfg.Store, cfg.OnSent, cfg.OnPaused, cfg.Logger = a.store, a.observer.QueueSent, a.observer.QueuePaused, a.log
	a.queue = queue.New(cfg)
	return nil
}
