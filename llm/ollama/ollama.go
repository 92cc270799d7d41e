// Package ollama uses a local Ollama through its own API at /api/chat, the only one that can set
// the size of the context. Reference: https://docs.ollama.com/api/chat.
//
// Requests are in request.go, tools in tools.go, answers in stream.go.
package ollama

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// Host is Ollama's default address.
const Host = "http://127.0.0.1:11434"

// Config describes a server. Its zero value is Ollama on this machine.
type Config struct {
	// Host is the address in any form of OLLAMA_HOST: a URL, host:port, or a host alone; [Host] if
	// empty.
	Host string
	// APIKey is sent as a bearer token, for a server behind a proxy or in the cloud; empty for none.
	APIKey string
	// HTTPClient sends the requests; nil for the default transport. Its Timeout and CheckRedirect are
	// not used.
	HTTPClient *http.Client
	// NumCtx is the size of the context in tokens; 0 leaves it to the server, whose default is
	// small and silently truncates long conversations.
	NumCtx int
	// Rules come before what is known of models by their names.
	Rules []llm.Rule
}

// Provider is one server. It is safe for concurrent use.
type Provider struct {
	llm.Refusals

	address string
	config  Config
	client  *wire.Client
}

var _ llm.Provider = (*Provider)(nil)

// New returns a provider for the server in config. It sends nothing. Its error means that Host is not
// an HTTP address.
func New(config Config) (*Provider, error) {
	base, err := Address(config.Host)
	if err != nil {
		return nil, fmt.Errorf("set up provider ollama: %w", err)
	}
	failures := wire.Failures{
		Provider: "ollama", Label: "Ollama",
		Kind:    func(p wire.Problem) llm.ErrorKind { return wire.KindOfStatus(p.Status) },
		Secrets: []string{config.APIKey},
	}
	return &Provider{
		Refusals: llm.Refusals{Rules: config.Rules, Known: models}, address: base + "/api/chat", config: config,
		client: wire.NewClient(config.HTTPClient, wire.NDJSON, failures),
	}, nil
}

// Address returns the URL of a server without a slash at its end: it adds what OLLAMA_HOST may leave out.
// The error means that host is not an HTTP address.
func Address(host string) (string, error) {
	host = strings.TrimSpace(host)
	if host == "" {
		return Host, nil
	}
	plain := !strings.Contains(host, "://")
	if plain {
		host = "http://" + host
	}
	if err := wire.CheckURL(host); err != nil {
		return "", err
	}
	u, err := url.Parse(host)
	if err != nil {
		return "", fmt.Errorf("parse host: %w", err)
	}
	if plain && u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "11434")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Name returns the provider's name in settings and records.
func (p *Provider) Name() string { return "ollama" }

// images are those that every version of the server can read.
var images = llm.ImageLimits{Types: []string{"image/png", "image/jpeg"}}

// models say what well-known models accept; see their tags at https://ollama.com/search.
var models = []llm.Rule{
	{
		Models:  []string{"gemma3*", "gemma-3*", "llava*", "bakllava*", "moondream*", "minicpm-v*"},
		Accepts: llm.Accepts{Images: images, NoTools: true},
	},
	{Models: []string{
		"gemma", "gemma:*", "gemma2*", "llama2*", "llama3", "llama3:*", "codellama*", "phi", "phi:*", "phi3*", "phi4",
		"phi4:*", "deepseek-coder*", "tinyllama*", "vicuna*", "dolphin*", "orca*", "starcoder*",
	}, Accepts: llm.Accepts{NoImages: true, NoTools: true}},
	{Models: []string{"*"}, Accepts: llm.Accepts{Images: images}},
}

// Patience returns how long the server may take to begin an answer. It loads the model first, for at most five minutes
// (OLLAMA_LOAD_TIMEOUT), and starts anew if a client has left meanwhile.
func (p *Provider) Patience() time.Duration { return 5 * time.Minute }

// Stream sends one request and yields the answer as it comes; see [llm.Provider]. Calls come
// together, once the model has finished.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	header := http.Header{"Accept": {"application/x-ndjson"}}
	if p.config.APIKey != "" {
		header.Set("Authorization", "Bearer "+p.config.APIKey)
	}
	return p.Refusals.Stream(req,
		func(req llm.Request, accepts llm.Accepts) iter.Seq2[llm.Delta, error] {
			sent := request(wire.Fold(req, accepts.Strict), p.config.NumCtx)
			a := &answer{text: wire.Thoughts{Within: accepts.ThinksUnasked}}
			return p.client.Stream(ctx, p.address, header.Clone(), sent, a)
		})
}
