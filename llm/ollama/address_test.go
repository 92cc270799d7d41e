package ollama_test

import (
	"net/http"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/ollama"
)

// network records where requests go.
type network struct{ to string }

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.to = r.URL.String()
	return nil, http.ErrServerClosed
}

// TestHost reads the forms that OLLAMA_HOST may have.
func TestHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"":                           "http://127.0.0.1:11434/api/chat",
		"  ":                         "http://127.0.0.1:11434/api/chat",
		"box":                        "http://box:11434/api/chat",
		"box:8080":                   "http://box:8080/api/chat",
		"[::1]":                      "http://[::1]:11434/api/chat",
		"[::1]:8080":                 "http://[::1]:8080/api/chat",
		"http://box":                 "http://box/api/chat",
		"https://ollama.example.com": "https://ollama.example.com/api/chat",
		"https://box/ollama/":        "https://box/ollama/api/chat",
	} {
		n := &network{}
		p := provider(t, ollama.Config{Host: host, HTTPClient: &http.Client{Transport: n}})
		for _, err := range p.Stream(t.Context(), llmtest.Greeting()) {
			if err == nil {
				t.Error("an answer comes from nowhere")
			}
		}
		testkit.Equal(t, n.to, want, "with the host %q the request goes", host)
	}
	for _, host := range []string{"ftp://box", "http://", "http://[", "a b"} {
		if _, err := ollama.New(ollama.Config{Host: host}); err == nil {
			t.Errorf("New() accepts the host %q", host)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config ollama.Config
		max    int
		want   string // the end of the body
	}{
		"none":      {want: `"stream":true}`},
		"a context": {config: ollama.Config{NumCtx: 8192}, max: 7, want: `"stream":true,"options":{"num_ctx":8192,"num_predict":7}}`},
	} {
		req := llmtest.Greeting()
		req.MaxTokens = c.max
		r, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
			c.config.Host, c.config.HTTPClient = baseURL, client
			return provider(t, c.config)
		}, req)
		if got := strings.TrimSpace(string(body)); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: the request is %s, want it to end with %s", name, got, c.want)
		}
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s: a server that needs no key gets one", name)
		}
	}
}
