// Package openai answers by OpenAI's Chat Completions API and by every server
// that speaks it: gateways, vLLM, LM Studio, llama.cpp, OpenRouter, Groq.
// Reference: https://platform.openai.com/docs/api-reference/chat.
//
// Requests go through github.com/sashabaranov/go-openai, which takes nothing from
// the environment. Requests are in request.go, tools in tools.go, answers in
// stream.go, failures in errors.go.
package openai

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// BaseURL is the address of OpenAI itself.
const BaseURL = "https://api.openai.com/v1"

// Config describes a server. Its zero value is OpenAI, without a key.
type Config struct {
	// Name is the provider's name in settings and records: "openai" if empty.
	Name string
	// Label is the provider's name for users: "OpenAI" if empty.
	Label string
	// BaseURL is the address before /chat/completions: [BaseURL] if empty.
	BaseURL string
	// APIKey is sent as a bearer token. Only OpenAI itself needs one.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout
	// and CheckRedirect are not used.
	HTTPClient *http.Client
	// LegacyMaxTokens writes the limit of tokens as max_tokens, which most
	// compatible servers know, instead of max_completion_tokens, which OpenAI's
	// reasoning models insist on.
	LegacyMaxTokens bool
	// OmitStreamOptions leaves stream_options out, for servers that refuse it. The
	// usage is then missing from most answers.
	OmitStreamOptions bool
	// MaxAnswer limits the size of an answer, in bytes; 0 is 64 MiB.
	MaxAnswer int64
}

// Provider is one server. Its methods may be called concurrently.
type Provider struct {
	name     string
	config   Config
	client   *openai.Client
	failures wire.Failures
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server that config describes. Nothing is sent.
func New(config Config) (*Provider, error) {
	name, label := config.Name, config.Label
	if name == "" {
		name = "openai"
	}
	if label == "" {
		label = "OpenAI"
	}
	if config.BaseURL == "" {
		config.BaseURL = BaseURL
	}
	if err := wire.CheckURL(config.BaseURL); err != nil {
		return nil, fmt.Errorf("set up provider %s: %w", name, err)
	}
	client := openai.DefaultConfig(config.APIKey)
	client.BaseURL = config.BaseURL
	client.HTTPClient = wire.NewClient(config.HTTPClient, wire.Options{Form: wire.SSE, Nameless: true, MaxAnswer: config.MaxAnswer})
	return &Provider{
		name:     name,
		config:   config,
		client:   openai.NewClientWithConfig(client),
		failures: wire.Failures{Provider: name, Label: label, Kind: kindOf, Secrets: []string{config.APIKey}},
	}, nil
}

// Name is the provider's name as settings and records have it.
func (p *Provider) Name() string { return p.name }

// Stream sends one request and yields the answer as it comes, see
// [llm.Provider]. Calls come together, when the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		if p.config.APIKey == "" && p.config.BaseURL == BaseURL {
			yield(llm.Delta{}, p.failures.NoKey())
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var a answer
		ctx, x := wire.NewExchange(ctx, a.raw)
		stream, err := p.client.CreateChatCompletionStream(ctx, p.request(req))
		if err != nil {
			yield(llm.Delta{}, p.refusal(ctx, x, err))
			return
		}
		defer func() { _ = stream.Close() }() // its error is that of a request that is over
		for {
			var chunk openai.ChatCompletionStreamResponse
			if chunk, err = stream.Recv(); err != nil {
				break
			}
			for _, d := range a.chunk(chunk) {
				if !yield(d, nil) {
					return
				}
			}
		}
		if !a.finished() {
			yield(llm.Delta{}, p.failure(ctx, x, &a, err))
			return
		}
		for _, d := range a.end() {
			if !yield(d, nil) {
				return
			}
		}
	}
}
