// Package google answers by Google's Gemini API, method streamGenerateContent.
// Reference: https://ai.google.dev/api/generate-content.
//
// Requests go through Google's own client. Requests are in request.go, tools in
// tools.go, answers in stream.go, failures in errors.go.
package google

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// BaseURL is the address of Google itself.
const BaseURL = "https://generativelanguage.googleapis.com"

// version is that of the API, a part of the path.
const version = "v1beta"

// Config describes the server. Its zero value is Google, without a key.
type Config struct {
	// BaseURL is the address before /v1beta/models: [BaseURL] if empty. A /v1beta
	// at its end is taken off.
	BaseURL string
	// APIKey is sent as x-goog-api-key.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout
	// and CheckRedirect are not used.
	HTTPClient *http.Client
	// MaxAnswer limits the size of an answer, in bytes; 0 is 64 MiB.
	MaxAnswer int64
}

// Provider is Google. Its methods may be called concurrently.
type Provider struct {
	models   *genai.Models // nil without a key
	failures wire.Failures
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server that config describes. Nothing is sent.
func New(config Config) (*Provider, error) {
	base := strings.TrimSuffix(strings.TrimRight(config.BaseURL, "/"), "/"+version)
	if base == "" {
		base = BaseURL
	}
	if err := wire.CheckURL(base); err != nil {
		return nil, fmt.Errorf("set up provider google: %w", err)
	}
	p := &Provider{failures: wire.Failures{Provider: "google", Label: "Google", Kind: kindOf, Secrets: []string{config.APIKey}}}
	if config.APIKey == "" {
		return p, nil // the vendor's client would look for a key in the environment
	}
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey:     config.APIKey,
		Backend:    genai.BackendGeminiAPI,
		HTTPClient: wire.NewClient(config.HTTPClient, wire.Options{Form: wire.SSE, Nameless: true, MaxAnswer: config.MaxAnswer}),
		HTTPOptions: genai.HTTPOptions{
			BaseURL:      base,
			APIVersion:   version,
			RetryOptions: &genai.HTTPRetryOptions{Attempts: new(int32(1))},
		},
	})
	if err != nil {
		// Its text may hold the whole configuration, with the key.
		return nil, errors.New("set up provider google: the client refuses the configuration")
	}
	p.models = client.Models
	return p, nil
}

// Name is the provider's name as settings and records have it.
func (p *Provider) Name() string { return "google" }

// Stream sends one request and yields the answer as it comes, see
// [llm.Provider]. Calls come together, when the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		if p.models == nil {
			yield(llm.Delta{}, p.failures.NoKey())
			return
		}
		contents, config := request(req)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var a answer
		ctx, x := wire.NewExchange(ctx, a.raw)
		var failed error
		for chunk, err := range p.models.GenerateContentStream(ctx, req.Model, contents, config) {
			if err != nil {
				failed = err
				break
			}
			if d := a.chunk(chunk); (d.Text != "" || d.Reasoning != "") && !yield(d, nil) {
				return
			}
		}
		if !a.finished() {
			yield(llm.Delta{}, p.failure(ctx, x, failed))
			return
		}
		if a.malformed() {
			yield(llm.Delta{}, p.failures.Problem(wire.Problem{Type: a.reason, Message: a.message}, nil))
			return
		}
		for _, d := range a.end() {
			if !yield(d, nil) {
				return
			}
		}
	}
}
