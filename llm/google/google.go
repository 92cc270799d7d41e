// Package google uses Google's Gemini API, method streamGenerateContent. Reference:
// https://ai.google.dev/api/generate-content.
//
// Requests are in request.go, tools in tools.go, answers in stream.go.
package google

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// BaseURL is the address of Google itself.
const BaseURL = "https://generativelanguage.googleapis.com"

// version is the API version, a part of the path.
const version = "v1beta"

// Config describes the server. Its zero value is Google, without a key.
type Config struct {
	// BaseURL is the address before /v1beta/models; [BaseURL] if empty. A trailing /v1beta is
	// removed.
	BaseURL string
	// APIKey is sent as x-goog-api-key. Only Google itself needs one.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout and CheckRedirect are
	// not used.
	HTTPClient *http.Client
	// Rules come before what is known of models by their names.
	Rules []llm.Rule
}

// Provider is Google. It is safe for concurrent use.
type Provider struct {
	llm.Refusals

	address string // before the model
	key     string
	client  *wire.Client
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server in config. It sends nothing. Its error means that BaseURL is
// not an HTTP address.
func New(config Config) (*Provider, error) {
	base := cmp.Or(strings.TrimSuffix(strings.TrimRight(config.BaseURL, "/"), "/"+version), BaseURL)
	if err := wire.CheckURL(base); err != nil {
		return nil, fmt.Errorf("set up provider google: %w", err)
	}
	failures := wire.Failures{
		Provider: "google", Label: wire.Label("Google", BaseURL, base), Kind: kindOf, Secrets: []string{config.APIKey},
	}
	return &Provider{
		address: base + "/" + version + "/", key: config.APIKey,
		Refusals: llm.Refusals{Rules: config.Rules, Known: models},
		client:   wire.NewClient(config.HTTPClient, wire.SSE, failures),
	}, nil
}

// Name returns the provider's name in settings and records.
func (p *Provider) Name() string { return "google" }

// models say what the models accept: no GIFs; see https://ai.google.dev/gemini-api/docs/image-understanding.
var models = []llm.Rule{{
	Models:  []string{"*"},
	Accepts: llm.Accepts{Images: llm.ImageLimits{Types: []string{"image/png", "image/jpeg", "image/webp"}}},
}}

// Stream sends one request and yields the answer as it comes; see [llm.Provider]. Calls come
// together, once the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	header := http.Header{"Accept": {"text/event-stream"}}
	if p.key != "" {
		header.Set("X-Goog-Api-Key", p.key)
	} else if strings.HasPrefix(p.address, BaseURL+"/") {
		return p.client.NoKey()
	}
	address := p.address + resource(req.Model) + ":streamGenerateContent?alt=sse"
	return p.Refusals.Stream(req,
		func(req llm.Request, _ llm.Accepts) iter.Seq2[llm.Delta, error] {
			return p.client.Stream(ctx, address, header.Clone(), request(req), &answer{})
		})
}

// resource returns the path of a model, whose name may begin with models/ or tunedModels/.
func resource(model string) string {
	kind, name, named := strings.Cut(model, "/")
	if !named || kind != "models" && kind != "tunedModels" {
		kind, name = "models", model
	}
	return kind + "/" + url.PathEscape(name)
}

// kindOf classifies the errors of https://ai.google.dev/gemini-api/docs/troubleshooting by status
// and details.
func kindOf(problem wire.Problem) llm.ErrorKind {
	for _, raw := range problem.Details {
		var detail struct {
			Reason     string `json:"reason"`
			Violations []struct {
				QuotaID string `json:"quotaId"`
			} `json:"violations"`
		}
		if json.Unmarshal(raw, &detail) != nil {
			continue
		}
		if strings.HasPrefix(detail.Reason, "API_KEY_") {
			return llm.KindAuth
		}
		for _, v := range detail.Violations {
			if strings.Contains(v.QuotaID, "PerDay") { // waiting a moment does not help
				return llm.KindQuota
			}
		}
	}
	switch problem.Type {
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return llm.KindAuth
	case "RESOURCE_EXHAUSTED":
		return llm.KindRate
	case "UNAVAILABLE", "INTERNAL", "ABORTED":
		return llm.KindOverloaded
	case "DEADLINE_EXCEEDED":
		return llm.KindTimeout
	case "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED":
		return llm.KindBadRequest
	}
	if malformed(problem.Type) {
		return llm.KindUnavailable
	}
	return wire.KindOfStatus(problem.Status)
}
