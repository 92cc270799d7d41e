package google_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/chat/google"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, c google.Config) chat.Provider {
	t.Helper()
	p, err := google.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// signed are calls of which the first has the signature of the exchange.
func signed(calls []chattest.Call) []chattest.Call {
	calls[0].Metadata = `{"thoughtSignature":"CrwBAdHtim9zaWduYXR1cmU="}`
	return calls
}

// unsigned is a request with calls of another provider: in an earlier turn, in
// this one, and beside one of Google's.
func unsigned(model string) chat.Request {
	add := func(id string) chat.ToolCall { return chat.ToolCall{ID: id, Name: "add", Arguments: `{}`} }
	answer := func(id string) chat.Message { return chat.Message{Role: chat.RoleTool, ToolCallID: id, Content: "3"} }
	own := add("call_4")
	own.Metadata = []byte(`{"thoughtSignature":"c2lnbmF0dXJl"}`)
	return chat.Request{Model: model, Messages: []chat.Message{
		{Role: chat.RoleUser, Content: "Add"},
		{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{add("call_1")}},
		answer("call_1"),
		{Role: chat.RoleUser, Content: "Again"},
		{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{add("call_2"), add("call_3")}},
		answer("call_2"), answer("call_3"),
		{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{own}},
		answer("call_4"),
	}}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	chattest.Run(t, chattest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) chat.Provider {
			return provider(t, google.Config{BaseURL: baseURL, APIKey: chattest.Key, HTTPClient: client})
		},
		Keyless: func(t *testing.T, client *http.Client) chat.Provider {
			return provider(t, google.Config{HTTPClient: client})
		},
		Label:     "Google",
		Path:      "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
		KeyHeader: "X-Goog-Api-Key",
		Answers: []chattest.Answer{
			{Exchange: "two_calls", Calls: signed(chattest.TwoCalls()), Stop: chat.StopToolCalls},
			{Exchange: "call_with_id", Calls: []chattest.Call{{Name: "get_time", Arguments: "{}", ID: "fc-9x1"}}, Stop: chat.StopToolCalls},
			{Exchange: "blocked_prompt", Stop: chat.StopFilter},
		},
		Failures: []chattest.Failure{
			{Exchange: "checkpoint", Kind: chat.KindUnavailable, Text: "Hello,", Says: "broke off"},
			{Exchange: "malformed_call", Kind: chat.KindUnavailable, Says: "broke off"},
			{Exchange: "stream_error_plain", Kind: chat.KindOverloaded, Text: "Hello,", Says: "overloaded"},
			{Exchange: "http_400_key", Kind: chat.KindAuth, Status: 400, Says: "Check the key"},
		},
		Requests: map[string]chat.Request{
			"calls_unsigned":          unsigned("gemini-3-pro"),
			"calls_unsigned_unneeded": unsigned("gemini-2.5-flash"),
		},
		Without: map[string]string{
			"length_in_call": "calls come whole",
		},
	})
}

// TestEnvironment shows that nothing comes from the environment.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1/")
	r, _ := chattest.Sent(t, func(baseURL string, client *http.Client) chat.Provider {
		return provider(t, google.Config{BaseURL: baseURL + "/v1beta/", APIKey: chattest.Key, HTTPClient: client})
	}, chattest.Greeting())
	if r.Header.Get("X-Goog-Api-Key") != chattest.Key || r.URL.Path != "/v1beta/models/some-model:streamGenerateContent" {
		t.Errorf("the request goes to %s with the key %q", r.URL.Path, r.Header.Get("X-Goog-Api-Key"))
	}
	for _, err := range provider(t, google.Config{}).Stream(t.Context(), chattest.Greeting()) {
		if e, ok := errors.AsType[*chat.Error](err); !ok || e.Kind != chat.KindAuth {
			t.Errorf("Stream() without a key = %v, want kind %s", err, chat.KindAuth)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if _, err := google.New(google.Config{BaseURL: "host", APIKey: chattest.Key}); err == nil || strings.Contains(err.Error(), chattest.Key) {
		t.Errorf("New() with an address that is none = %v", err)
	}
}
