// Package openai uses OpenAI's Chat Completions API, which many servers speak: gateways, vLLM, LM
// Studio, llama.cpp, OpenRouter, Groq. Reference:
// https://platform.openai.com/docs/api-reference/chat.
//
// Requests are in request.go and mistral.go, tools in tools.go, answers in stream.go and thoughts.go, failures in errors.go.
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

// Config describes a server. Its zero value is OpenAI, without a key.
type Config struct {
	// BaseURL is the address before /chat/completions; [BaseURL] if empty.
	BaseURL string
	// APIKey is sent as a bearer token. Only OpenAI itself needs one.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout and CheckRedirect are
	// not used.
	HTTPClient *http.Client
	// Compatible means another server than OpenAI's. Most know the token limit as max_tokens, not as
	// max_completion_tokens, which OpenAI's reasoning models require. Some, of DeepSeek and Moonshot for
	// example, require what the model thought before its calls, which OpenAI refuses.
	Compatible bool
}

// Provider is one server. It is safe for concurrent use.
type Provider struct {
	config Config
	client *wire.Client
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
	return &Provider{config: config, client: wire.NewClient(config.HTTPClient, wire.SSE, failures)}, nil
}

// Name returns the provider's name in settings and records.
func (p *Provider) Name() string { return "openai" }

// ImageLimits returns which images the API accepts: no animated GIFs; see
// https://platform.openai.com/docs/guides/images-vision.
func (p *Provider) ImageLimits() llm.ImageLimits {
	return llm.ImageLimits{Types: []string{"image/png", "image/jpeg", "image/webp"}}
}

// Stream sends one request and yields the answer as it comes; see [llm.Provider]. Calls come
// together, once the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	header := http.Header{"Accept": {"text/event-stream"}}
	if p.config.APIKey != "" {
		header.Set("Authorization", "Bearer "+p.config.APIKey)
	} else if p.config.BaseURL == BaseURL {
		return p.client.NoKey()
	}
	sent := request(req, p.config.Compatible)
	if strings.Contains(p.config.BaseURL, "//"+mistralHost) {
		sent.StreamOptions = streamOptions{}
	}
	return p.client.Stream(ctx, p.config.BaseURL+"/chat/completions", header, sent, &answer{})
}
