// Package anthropic uses Anthropic's Messages API. Reference:
// https://platform.claude.com/docs/en/api/messages.
//
// Requests are in request.go, tools in tools.go and keys.go, answers in stream.go and thoughts.go, failures in
// errors.go.
package anthropic

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

// BaseURL is the address of Anthropic itself.
const BaseURL = "https://api.anthropic.com"

// version is the API version; see https://platform.claude.com/docs/en/api/versioning.
const version = "2023-06-01"

// Config describes the server. Its zero value is Anthropic, without a key.
type Config struct {
	// BaseURL is the address before /v1/messages; [BaseURL] if empty. A trailing /v1 is removed.
	BaseURL string
	// APIKey is sent as x-api-key.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout and CheckRedirect are
	// not used.
	HTTPClient *http.Client
	// Cache marks the system prompt and the last message of a conversation, so that Anthropic keeps
	// the prefix for five minutes. Writing to that cache costs a quarter more than plain input,
	// reading from it a tenth.
	Cache bool
	// Rules come before what is known of models by their names.
	Rules []llm.Rule
}

// Provider is Anthropic. It is safe for concurrent use.
type Provider struct {
	llm.Refusals

	config Config
	client *wire.Client
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server in config. It sends nothing. Its error means that BaseURL is
// not an HTTP address.
func New(config Config) (*Provider, error) {
	base := cmp.Or(strings.TrimSuffix(strings.TrimRight(config.BaseURL, "/"), "/v1"), BaseURL)
	if err := wire.CheckURL(base); err != nil {
		return nil, fmt.Errorf("set up provider anthropic: %w", err)
	}
	config.BaseURL = base
	failures := wire.Failures{
		Provider: "anthropic", Label: wire.Label("Anthropic", BaseURL, base), Kind: kindOf,
		Secrets: []string{config.APIKey},
	}
	return &Provider{
		Refusals: llm.Refusals{Rules: config.Rules, Known: models}, config: config,
		client: wire.NewClient(config.HTTPClient, wire.SSE, failures),
	}, nil
}

// Name returns the provider's name in settings and records.
func (p *Provider) Name() string { return "anthropic" }

// limits are those of images: 5 MB of Base64 and 8000 pixels a side; see
// https://platform.claude.com/docs/en/build-with-claude/vision.
var limits = llm.ImageLimits{Bytes: 5 << 20 / 4 * 3, Side: 8000}

// models say what the models accept. From Opus 4.7 on, they refuse sampling parameters; from 4.1 on, both at once:
// https://platform.claude.com/docs/en/about-claude/models/migration-guide.
var models = []llm.Rule{
	{
		Models:  []string{"claude-opus-4-[7-9]*", "claude-*[a-z]-[5-9]*", "claude-*-[1-9][0-9]"},
		Accepts: llm.Accepts{Images: limits, NoTemperature: true, NoTopP: true},
	},
	{Models: []string{"claude-*"}, Accepts: llm.Accepts{Images: limits, OneOfThem: true}},
	{Models: []string{"*"}, Accepts: llm.Accepts{Images: limits}},
}

// Stream sends one request and yields the answer as it comes; see [llm.Provider]. Calls come
// together, once the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	header := http.Header{"Accept": {"text/event-stream"}, "Anthropic-Version": {version}}
	if p.config.APIKey != "" {
		header.Set("X-Api-Key", p.config.APIKey)
	} else if p.config.BaseURL == BaseURL {
		return p.client.NoKey()
	}
	return p.Refusals.Stream(req,
		func(req llm.Request, accepts llm.Accepts) iter.Seq2[llm.Delta, error] {
			sent := request(req, p.config.Cache)
			if accepts.NoLimit { // the API requires one
				sent.MaxTokens = leastMaxTokens
			}
			return p.client.Stream(ctx, p.config.BaseURL+"/v1/messages", header.Clone(), sent,
				&answer{tools: sent.Tools})
		})
}

// kindOf classifies the errors of https://platform.claude.com/docs/en/api/errors.
func kindOf(problem wire.Problem) llm.ErrorKind {
	switch problem.Type {
	case "authentication_error", "permission_error":
		return llm.KindAuth
	case "billing_error":
		return llm.KindQuota
	case "rate_limit_error":
		return llm.KindRate
	case "request_too_large":
		return llm.KindTooLong
	case "overloaded_error", "api_error":
		return llm.KindOverloaded
	case "timeout_error":
		return llm.KindTimeout
	case "not_found_error", "invalid_request_error":
		return llm.KindBadRequest
	}
	return wire.KindOfStatus(problem.Status)
}
