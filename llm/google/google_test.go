package google_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/google"
	"voicebridge/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, c google.Config) llm.Provider {
	t.Helper()
	p, err := google.New(c)
	testkit.Must(t, err)
	return p
}

// signed are calls of which the first has the signature from the recorded exchange.
func signed(calls []llmtest.Call) []llmtest.Call {
	calls[0].Metadata = `{"thoughtSignature":"CrwBAdHtim9zaWduYXR1cmU="}`
	return calls
}

// unsigned is a request with calls of another provider: in an earlier exchange, in the current
// one, and beside one of Google's.
func unsigned(model string) llm.Request {
	add := func(id string) llm.ToolCall { return llm.ToolCall{ID: id, Name: "add", Arguments: `{}`} }
	answer := func(id string) llm.Message {
		return llm.Message{Role: llm.RoleTool, ToolCallID: id, ToolName: "add", Content: "3"}
	}
	own := add("call_4")
	own.Metadata = []byte(`{"thoughtSignature":"c2lnbmF0dXJl"}`)
	return llm.Request{Model: model, Messages: []llm.Message{
		{Role: llm.RoleUser, Content: "Add"},
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{add("call_1")}},
		answer("call_1"),
		{Role: llm.RoleUser, Content: "Again"},
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{add("call_2"), add("call_3")}},
		answer("call_2"), answer("call_3"),
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{own}},
		answer("call_4"),
	}}
}

// imageOfTool is a request with a result that contains an image.
func imageOfTool(model string) llm.Request {
	return llm.Request{Model: model, Messages: []llm.Message{
		{Role: llm.RoleUser, Content: "Look"},
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "look", Arguments: `{}`}}},
		{Role: llm.RoleTool, ToolCallID: "call_1", ToolName: "look", Content: "[image, image/png]", Images: []llm.Image{{MediaType: "image/png", Data: []byte("\x89PNG")}}},
	}}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) llm.Provider {
			return provider(t, google.Config{BaseURL: baseURL, APIKey: llmtest.Key, HTTPClient: client})
		},
		Keyless: func(t *testing.T, client *http.Client) llm.Provider {
			return provider(t, google.Config{HTTPClient: client})
		},
		Label:     "Google",
		Path:      "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
		KeyHeader: "X-Goog-Api-Key",
		Answers: []llmtest.Answer{
			{Exchange: "two_calls", Calls: signed(llmtest.TwoCalls()), Stop: llm.StopToolCalls},
			{Exchange: "other_arguments", Calls: llmtest.TwoCalls(), Stop: llm.StopToolCalls},
			{Exchange: "call_with_id", Calls: []llmtest.Call{{Name: "get_time", Arguments: "{}", ID: "fc-9x1"}}, Stop: llm.StopToolCalls},
			{Exchange: "blocked_prompt", Stop: llm.StopRefusal},
		},
		Failures: []llmtest.Failure{
			{Exchange: "checkpoint", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
			{Exchange: "malformed_call", Kind: llm.KindUnavailable, Says: "broke off"},
			{Exchange: "stream_error_plain", Kind: llm.KindOverloaded, Text: "Hello,", Says: "overloaded"},
			{Exchange: "http_400_key", Kind: llm.KindAuth, Status: 400, Says: "Check the key"},
		},
		Requests: map[string]llm.Request{
			"calls_unsigned":          unsigned("gemini-3-pro"),
			"calls_unsigned_unneeded": unsigned("gemini-2.5-flash"),
			"images_inside":           imageOfTool("gemini-3-pro"),
		},
		Without: map[string]string{
			"length_in_call":    "calls come whole",
			"http_400_too_long": "it has no code",
		},
	})
}

// TestEnvironment: nothing is read from the environment.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1/")
	r, _ := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, google.Config{BaseURL: baseURL + "/v1beta/", APIKey: llmtest.Key, HTTPClient: client})
	}, llmtest.Greeting())
	if r.Header.Get("X-Goog-Api-Key") != llmtest.Key || r.URL.Path != "/v1beta/models/some-model:streamGenerateContent" {
		t.Errorf("the request goes to %s with the key %q", r.URL.Path, r.Header.Get("X-Goog-Api-Key"))
	}
	for _, err := range provider(t, google.Config{}).Stream(t.Context(), llmtest.Greeting()) {
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindAuth {
			t.Errorf("Stream() without a key = %v, want kind %s", err, llm.KindAuth)
		}
	}
}

// TestOwnServer: a server that stands in for Google may need no key.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	r, _ := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, google.Config{BaseURL: baseURL, HTTPClient: client})
	}, llmtest.Greeting())
	if got, sent := r.Header["X-Goog-Api-Key"]; sent {
		t.Errorf("the request has the key %q", got)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if _, err := google.New(google.Config{BaseURL: "host", APIKey: llmtest.Key}); err == nil || strings.Contains(err.Error(), llmtest.Key) {
		t.Errorf("New() with an invalid address = %v", err)
	}
}
