package anthropic_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/anthropic"
	"voicebridge/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, c anthropic.Config) llm.Provider {
	t.Helper()
	p, err := anthropic.New(c)
	testkit.Must(t, err)
	return p
}

// thoughtful is a request with thoughts of an earlier exchange and of the current one.
func thoughtful() llm.Request {
	add := func(id, thoughts string) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Content: "I add.", ToolCalls: []llm.ToolCall{
			{ID: id, Name: "add", Arguments: "{}", Metadata: []byte(`{"thinking":[` + thoughts + `]}`)}, {ID: id + "b", Name: "add", Arguments: "{}"},
		}}
	}
	answer := func(id string) llm.Message { return llm.Message{Role: llm.RoleTool, ToolCallID: id, Content: "3"} }
	return llm.Request{Model: "some-model", Messages: []llm.Message{
		{Role: llm.RoleUser, Content: "Add"},
		add("call_1", `{"type":"thinking","thinking":"I think.","signature":"c2ln"}`), answer("call_1"), answer("call_1b"),
		{Role: llm.RoleUser, Content: "Again"},
		add("call_2", `{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"redacted_thinking","data":"aGlkZGVu"}`), answer("call_2"), answer("call_2b"),
	}}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) llm.Provider {
			return provider(t, anthropic.Config{BaseURL: baseURL, APIKey: llmtest.Key, HTTPClient: client})
		},
		Keyless: func(t *testing.T, client *http.Client) llm.Provider {
			return provider(t, anthropic.Config{HTTPClient: client})
		},
		Label:     "Anthropic",
		Path:      "/v1/messages",
		KeyHeader: "X-Api-Key",
		Refuses:   true,
		Answers: []llmtest.Answer{
			{Exchange: "context_window", Text: "cut", Stop: llm.StopLength},
			{Exchange: "context_window_in_call", Text: "Let me look.", Stop: llm.StopLength},
			{Exchange: "filter_in_call", Text: "Let me look.", Stop: llm.StopFilter},
			{Exchange: "thoughts_before_call", Text: "Let me look.", Thinks: true, Calls: []llmtest.Call{{
				Name: "get_time", Arguments: "{}",
				Metadata: `{"thinking":[{"type":"thinking","thinking":"Let me think.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix"}]}`,
			}}, Stop: llm.StopToolCalls},
			{Exchange: "hang_after_stop", Text: "ok", Stop: llm.StopEnd},
		},
		Failures: []llmtest.Failure{
			{Exchange: "http_400_credit", Kind: llm.KindQuota, Status: 400, Says: "billing"},
			{Exchange: "http_400_prompt", Kind: llm.KindTooLong, Status: 400, Says: "too long"},
			{Exchange: "http_504", Kind: llm.KindTimeout, Status: 504, Says: "in time"},
		},
		Requests: map[string]llm.Request{"thoughts": thoughtful()},
		Without: map[string]string{
			"http_400_too_long": "it has no code",
			"http_429_quota":    "it has no code",
		},
	})
}

// TestCache checks the two cache marks, which the golden files do not contain.
func TestCache(t *testing.T) {
	t.Parallel()
	const mark = `"cache_control":{"type":"ephemeral"}`
	call := llm.ToolCall{ID: "call_1", Name: "add", Arguments: "{}"}
	for name, c := range map[string]struct {
		last []llm.Message
		want string // the end of the messages
	}{
		"after a text":   {[]llm.Message{{Role: llm.RoleUser, Content: "Go"}}, `{"type":"text","text":"Go",` + mark + `}]}]`},
		"after a result": {[]llm.Message{{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{call}}, {Role: llm.RoleTool, ToolCallID: "call_1", Content: "3"}}, `{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"3"}],` + mark + `}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := llmtest.Greeting()
			req.Messages = append(req.Messages[:1:1], c.last...)
			_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
				return provider(t, anthropic.Config{BaseURL: baseURL + "/v1/", APIKey: llmtest.Key, HTTPClient: client, Cache: true})
			}, req)
			for _, want := range []string{c.want, `"system":[{"type":"text","text":"Be brief.",` + mark + `}]`} {
				if !strings.Contains(string(body), want) {
					t.Errorf("the request is %s, want one with %s", body, want)
				}
			}
			testkit.Equal(t, strings.Count(string(body), mark), 2, "the request has marks")
		})
	}
}

// TestCacheOfOne: a single request is not marked, since caching would cost more and no
// request with the same beginning follows.
func TestCacheOfOne(t *testing.T) {
	t.Parallel()
	_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, anthropic.Config{BaseURL: baseURL, APIKey: llmtest.Key, HTTPClient: client, Cache: true})
	}, llmtest.Greeting())
	if strings.Contains(string(body), "cache_control") {
		t.Errorf("the request is %s, want one without marks", body)
	}
}

// TestLastWords: recent models do not continue words of their own, as after a message without any.
func TestLastWords(t *testing.T) {
	t.Parallel()
	req := llmtest.Greeting()
	req.Messages = append(req.Messages[:1:1], llm.Message{Role: llm.RoleAssistant, Content: "I"}, llm.Message{Role: llm.RoleUser, Content: " "})
	_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, anthropic.Config{BaseURL: baseURL, APIKey: llmtest.Key, HTTPClient: client})
	}, req)
	if !strings.Contains(string(body), `{"role":"assistant","content":[{"type":"text","text":"I"}]},{"role":"user","content":[{"type":"text","text":"(The conversation goes on.)"}]}]`) {
		t.Errorf("the request is %s", body)
	}
}

// TestTemperature: the API refuses what is hotter than 1, which other vendors accept.
func TestTemperature(t *testing.T) {
	t.Parallel()
	for given, want := range map[float64]string{0: "0", 0.7: "0.7", 1.5: "1"} {
		req := llmtest.Greeting()
		req.Temperature = &given
		_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
			return provider(t, anthropic.Config{BaseURL: baseURL, APIKey: llmtest.Key, HTTPClient: client})
		}, req)
		if !strings.Contains(string(body), `"temperature":`+want+`,`) {
			t.Errorf("%v: the request is %s", given, body)
		}
	}
}

// TestBlankResult: the API refuses a text of nothing but spaces, also inside of a result.
func TestBlankResult(t *testing.T) {
	t.Parallel()
	req := llmtest.Greeting()
	req.Messages = append(req.Messages[:1:1],
		llm.Message{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "add"}}},
		llm.Message{Role: llm.RoleTool, ToolCallID: "call_1", Content: " \n"})
	_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, anthropic.Config{BaseURL: baseURL, APIKey: llmtest.Key, HTTPClient: client})
	}, req)
	if !strings.Contains(string(body), `{"type":"tool_result","tool_use_id":"call_1"}`) {
		t.Errorf("the request is %s", body)
	}
}

// TestEnvironment: nothing is read from the environment.
func TestEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "from-the-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "from-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")
	r, _ := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, anthropic.Config{BaseURL: baseURL, HTTPClient: client})
	}, llmtest.Greeting())
	if key, token := r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"); key != "" || token != "" {
		t.Errorf("the request has the keys %q and %q", key, token)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if _, err := anthropic.New(anthropic.Config{BaseURL: "ftp://host"}); err == nil {
		t.Error("New() accepts an address that is not HTTP")
	}
}

// TestSampling knows which models take a temperature by their names.
func TestSampling(t *testing.T) {
	t.Parallel()
	p := provider(t, anthropic.Config{APIKey: "key"})
	for model, refuses := range map[string]bool{
		"claude-3-5-haiku-latest": false, "claude-3-7-sonnet-20250219": false, "claude-sonnet-4-20250514": false, "claude-haiku-4-5": false,
		"claude-haiku-4-5-20251001": false, "claude-sonnet-4-6": false, "claude-opus-4-6": false,
		"claude-opus-4-7": true, "claude-opus-4-8-20260601": true, "claude-opus-5": true, "claude-sonnet-5-20260801": true, "claude-sonnet-5-4": true,
		"claude-opus-10": true,
	} {
		if a := llm.Of(p, model); a.NoTemperature != refuses || a.NoTopP != refuses || a.OneOfThem == refuses {
			t.Errorf("%s accepts %+v", model, a)
		}
	}
}
