// Package anthropic answers by Anthropic's Messages API.
// Reference: https://platform.claude.com/docs/en/api/messages.
//
// Requests go through Anthropic's own client, built without what that takes from
// the environment. Requests are in request.go, tools in tools.go, answers in
// stream.go, failures in errors.go.
package anthropic

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// BaseURL is the address of Anthropic itself.
const BaseURL = "https://api.anthropic.com"

// defaultMaxTokens limits an answer when the request does not; the API insists
// on a limit.
const defaultMaxTokens = 4096

// Config describes the server. Its zero value is Anthropic, without a key.
type Config struct {
	// BaseURL is the address before /v1/messages: [BaseURL] if empty. A /v1 at its
	// end is taken off.
	BaseURL string
	// APIKey is sent as x-api-key.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout
	// and CheckRedirect are not used.
	HTTPClient *http.Client
	// Cache marks the system prompt and the last message, so that Anthropic keeps
	// the prefix for five minutes. Writing to that cache costs more than plain
	// input, reading from it a tenth.
	Cache bool
	// MaxAnswer limits the size of an answer, in bytes; 0 is 64 MiB.
	MaxAnswer int64
}

// Provider is Anthropic. Its methods may be called concurrently.
type Provider struct {
	keyless  bool
	cache    bool
	messages anthropic.MessageService
	failures wire.Failures
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server that config describes. Nothing is sent.
func New(config Config) (*Provider, error) {
	base := strings.TrimSuffix(strings.TrimRight(config.BaseURL, "/"), "/v1")
	if base == "" {
		base = BaseURL
	}
	if err := wire.CheckURL(base); err != nil {
		return nil, fmt.Errorf("set up provider anthropic: %w", err)
	}
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(wire.NewClient(config.HTTPClient, wire.Options{Form: wire.SSE, MaxAnswer: config.MaxAnswer})),
		option.WithMaxRetries(0),
	}
	if config.APIKey != "" {
		options = append(options, option.WithAPIKey(config.APIKey))
	}
	return &Provider{
		keyless:  config.APIKey == "" && base == BaseURL,
		cache:    config.Cache,
		messages: anthropic.NewMessageService(options...),
		failures: wire.Failures{Provider: "anthropic", Label: "Anthropic", Kind: kindOf, Secrets: []string{config.APIKey}},
	}, nil
}

// Name is the provider's name as settings and records have it.
func (p *Provider) Name() string { return "anthropic" }

// Stream sends one request and yields the answer as it comes, see
// [llm.Provider]. Calls come together, when the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		if p.keyless {
			yield(llm.Delta{}, p.failures.NoKey())
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ctx, x := wire.NewExchange(ctx, nil)
		stream := p.messages.NewStreaming(ctx, p.params(req))
		defer func() { _ = stream.Close() }() // its error is that of a request that is over
		var a answer
		for !a.done && stream.Next() {
			d, ok := a.event(stream.Current())
			if ok && !yield(d, nil) {
				return
			}
		}
		if !a.finished() {
			yield(llm.Delta{}, p.failure(ctx, x, stream.Err()))
			return
		}
		for _, d := range a.end() {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// failure returns the error for an answer that is not whole.
func (p *Provider) failure(ctx context.Context, x *wire.Exchange, err error) error {
	if _, refused := x.Problem(); !refused && ctx.Err() == nil {
		if event, ok := errors.AsType[*anthropic.Error](err); ok { // in the middle of the stream
			return p.failures.Problem(wire.ParseProblem([]byte(event.RawJSON())), nil)
		}
	}
	return p.failures.Of(ctx, x, err)
}
