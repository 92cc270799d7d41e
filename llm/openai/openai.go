// Package openai uses OpenAI's two APIs for text. OpenAI itself is asked by the Responses API, the only one by which
// all its models think and call functions; compatible servers, such as gateways, vLLM, LM Studio, llama.cpp, OpenRouter
// and Groq, by Chat Completions, which all of them speak. References:
// https://platform.openai.com/docs/api-reference/responses and https://platform.openai.com/docs/api-reference/chat.
//
// Of Chat Completions, requests are in request.go and mistral.go, answers in stream.go; of the Responses API, they are
// in responses.go and output.go. Both share tools.go, thoughts.go, refusals.go and errors.go.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// BaseURL is the address of OpenAI itself.
const BaseURL = "https://api.openai.com/v1"

// API is one of OpenAI's APIs for text.
type API string

// The APIs.
const (
	Responses       API = "responses"
	ChatCompletions API = "chat"
)

// Config describes a server. Its zero value is OpenAI, without a key.
type Config struct {
	// BaseURL is the address before /responses and /chat/completions; [BaseURL] if empty.
	BaseURL string
	// APIKey is sent as a bearer token. Only OpenAI itself needs one.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout and CheckRedirect are
	// not used.
	HTTPClient *http.Client
	// Compatible means another server than OpenAI's. Errors name its host. Most know the token limit of Chat
	// Completions as max_tokens, not as max_completion_tokens, which OpenAI's reasoning models require. Some, of
	// DeepSeek and Moonshot for example, require what the model thought before its calls, which OpenAI refuses.
	Compatible bool
	// API is the one that is used; empty means Responses for OpenAI, and ChatCompletions for compatible servers.
	API API
	// Rules come before what is known of models by their names.
	Rules []llm.Rule
}

// Provider is one server. It is safe for concurrent use.
type Provider struct {
	config   Config
	client   *wire.Client
	refusals llm.Refusals
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server in config. It sends nothing. Its error means that BaseURL is
// not an HTTP address.
func New(config Config) (*Provider, error) {
	config.BaseURL = cmp.Or(strings.TrimRight(config.BaseURL, "/"), BaseURL)
	if err := wire.CheckURL(config.BaseURL); err != nil {
		return nil, fmt.Errorf("set up provider openai: %w", err)
	}
	failures := wire.Failures{Provider: "openai", Label: "OpenAI", Kind: kindOf, Secrets: []string{config.APIKey}}
	usual := Responses
	if config.Compatible {
		failures.Label, usual = wire.Label("OpenAI", BaseURL, config.BaseURL), ChatCompletions
	}
	config.API = cmp.Or(config.API, usual)
	return &Provider{config: config, client: wire.NewClient(config.HTTPClient, wire.SSE, failures)}, nil
}

// Name returns the provider's name in settings and records.
func (p *Provider) Name() string { return "openai" }

// Accepts returns what a model accepts here.
func (p *Provider) Accepts(model string) llm.Accepts {
	a := llm.Find(p.config.Rules, models, model)
	a.NoStreamOptions = a.NoStreamOptions || strings.Contains(p.config.BaseURL, "//"+mistralHost)
	return p.refusals.Of(model, a)
}

// Stream sends one request and yields the answer as it comes; see [llm.Provider]. Calls come together, once the model
// has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	if p.config.APIKey == "" && p.config.BaseURL == BaseURL {
		return p.client.NoKey()
	}
	return p.refusals.Stream(req, p.Accepts(req.Model),
		func(req llm.Request, accepts llm.Accepts) iter.Seq2[llm.Delta, error] {
			return p.stream(ctx, req, accepts)
		})
}

// stream makes one request.
func (p *Provider) stream(ctx context.Context, req llm.Request, accepts llm.Accepts) iter.Seq2[llm.Delta, error] {
	header := http.Header{"Accept": {"text/event-stream"}}
	if p.config.APIKey != "" {
		header.Set("Authorization", "Bearer "+p.config.APIKey)
	}
	if p.config.API == Responses {
		return p.client.Stream(ctx, p.config.BaseURL+"/responses", header, responsesRequest(req, accepts), &output{})
	}
	return p.client.Stream(ctx, p.config.BaseURL+"/chat/completions", header,
		request(req, p.config.Compatible, accepts), &answer{tags: p.config.Compatible})
}
