// Package openai uses OpenAI's two APIs for text. OpenAI itself is asked by the Responses API, the only one by which
// all its models think and call functions; compatible servers, such as gateways, vLLM, LM Studio, llama.cpp, OpenRouter
// and Groq, by Chat Completions, which all of them speak. References:
// https://platform.openai.com/docs/api-reference/responses and https://platform.openai.com/docs/api-reference/chat.
//
// Of Chat Completions, requests are in request.go, answers in stream.go; of the Responses API, they are in responses.go
// and output.go. Both share tools.go and thoughts.go.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
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
	llm.Refusals

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
	usual := Responses
	if config.Compatible {
		failures.Label, usual = wire.Label("OpenAI", BaseURL, config.BaseURL), ChatCompletions
	}
	config.API = cmp.Or(config.API, usual)
	return &Provider{
		Refusals: llm.Refusals{Rules: config.Rules, Known: models}, config: config,
		client: wire.NewClient(config.HTTPClient, wire.SSE, failures),
	}, nil
}

// Name returns the provider's name in settings and records.
func (p *Provider) Name() string { return "openai" }

// Stream sends one request and yields the answer as it comes; see [llm.Provider]. Calls come together, once the model
// has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	if p.config.APIKey == "" && p.config.BaseURL == BaseURL {
		return p.client.NoKey()
	}
	return p.Refusals.Stream(req, func(req llm.Request, accepts llm.Accepts) iter.Seq2[llm.Delta, error] {
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
	accepts.NoStreamOptions = accepts.NoStreamOptions || strings.Contains(p.config.BaseURL, "//"+mistralHost)
	return p.client.Stream(ctx, p.config.BaseURL+"/chat/completions", header,
		request(req, p.config.Compatible, accepts), &answer{
			tags: p.config.Compatible, text: wire.Thoughts{Within: accepts.ThinksUnasked},
		})
}

// mistralHost is Mistral's own server, which refuses stream_options; its answers always have a usage.
const mistralHost = "api.mistral.ai"

// images are those that the APIs accept: no animated GIFs; see https://platform.openai.com/docs/guides/images-vision.
var images = llm.ImageLimits{Types: []string{"image/png", "image/jpeg", "image/webp"}}

// models say what OpenAI's models accept, also where gateways have them. Those that think refuse sampling parameters,
// and know the limit of an answer by its new name only: https://platform.openai.com/docs/guides/reasoning. gpt-5.6 and
// its later sisters call functions by Chat Completions only without thinking, also if the request does not ask for it.
var models = []llm.Rule{
	{
		Models:  []string{"gpt-5.[6-9]*", "gpt-5.[1-9][0-9]*"},
		Accepts: llm.Accepts{Images: images, NoTemperature: true, NoTopP: true, NewLimit: true, QuietWithTools: true},
	},
	{
		Models:  []string{"gpt-5*chat*", "gpt-5.[24]", "gpt-5.[24]-20*"},
		Accepts: llm.Accepts{Images: images, NewLimit: true},
	},
	{
		Models:  []string{"o[1-9]*", "gpt-5*", "gpt-6*"},
		Accepts: llm.Accepts{Images: images, NoTemperature: true, NoTopP: true, NewLimit: true},
	},
	{Models: []string{"gpt-3*", "gpt-4*", "chatgpt-4*"}, Accepts: llm.Accepts{Images: images, NoReasoning: true}},
	{ // https://huggingface.co/Qwen/Qwen3-30B-A3B-Thinking-2507, the templates of QwQ and DeepSeek-R1
		Models:  []string{"qwen3*thinking*", "qwq*", "deepseek-r1*"},
		Accepts: llm.Accepts{Images: images, ThinksUnasked: true},
	},
	{Models: []string{"*"}, Accepts: llm.Accepts{Images: images}},
}

// kindOf classifies the errors of https://platform.openai.com/docs/guides/error-codes and of
// compatible servers.
func kindOf(problem wire.Problem) llm.ErrorKind {
	if problem.Param == "input_tokens" { // vLLM
		return llm.KindTooLong
	}
	for _, code := range []string{problem.Code, problem.Type} {
		switch code {
		case "invalid_api_key", "account_deactivated", "authentication_error", "permission_error":
			return llm.KindAuth
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance":
			return llm.KindQuota
		case "rate_limit_exceeded", "rate_limit_error", "requests", "tokens":
			return llm.KindRate
		case "context_length_exceeded", "exceed_context_size_error":
			return llm.KindTooLong
		// OpenAI, Azure, gateways, Alibaba
		case "invalid_prompt", "content_filter", "content_policy_violation", "image_content_policy_violation",
			"data_inspection_failed":
			return llm.KindRefused
		case "server_error", "internal_server_error", "overloaded_error", "service_unavailable", "engine_overloaded":
			return llm.KindOverloaded
		case "invalid_request_error", "model_not_found":
			if problem.Status == 0 {
				return llm.KindBadRequest
			}
		}
		if problem.Status == 0 && strings.Contains(code, "image") { // there are a dozen, as invalid_image_format
			return llm.KindBadRequest
		}
	}
	status := problem.Status
	if status == 0 { // gateways report their upstream's status as the code
		if code, err := strconv.Atoi(problem.Code); err == nil {
			status = code
		}
	}
	return wire.KindOfStatus(status)
}
