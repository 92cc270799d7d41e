package openai_test

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, c openai.Config) llm.Provider {
	t.Helper()
	p, err := openai.New(c)
	testkit.Must(t, err)
	return p
}

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) llm.Provider {
			return provider(t, openai.Config{BaseURL: baseURL + "/v1", APIKey: llmtest.Key, HTTPClient: client, API: openai.ChatCompletions})
		},
		Keyless: func(t *testing.T, client *http.Client) llm.Provider {
			return provider(t, openai.Config{HTTPClient: client, API: openai.ChatCompletions})
		},
		Label: "OpenAI", Named: true,
		Path:      "/v1/chat/completions",
		KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Answers: []llmtest.Answer{
			{Exchange: "calls_of_one_index", Calls: llmtest.TwoCalls(), Stop: llm.StopToolCalls},
			{Exchange: "ids_of_pieces", Calls: llmtest.TwoCalls(), Stop: llm.StopToolCalls},
			{Exchange: "other_arguments", Calls: llmtest.TwoCalls(), Stop: llm.StopToolCalls},
			{Exchange: "calls_without_ids", Calls: llmtest.TwoCalls(), Stop: llm.StopToolCalls},
			{Exchange: "filter_in_call", Text: "Let me look.", Stop: llm.StopFilter},
			{Exchange: "thoughts_before_call", Thinks: true, Calls: []llmtest.Call{{
				Name: "get_time", Arguments: "{}", Metadata: `{"reasoning_content":"Let me think."}`,
			}}, Stop: llm.StopToolCalls},
			{Exchange: "refusal", Text: "I cannot do that.", Stop: llm.StopEnd},
			{Exchange: "whole", Text: "Hello, wörld ☃", Usage: &llmtest.Usage{Input: 12, Output: 5, Cached: 4}, Stop: llm.StopEnd},
			{Exchange: "whole_calls", Text: "Let me look.", Calls: llmtest.TwoCalls(), Usage: &llmtest.Usage{Input: 12, Output: 5, Cached: 4}, Stop: llm.StopToolCalls},
		},
		Failures: []llmtest.Failure{
			{Exchange: "stream_error_code", Kind: llm.KindOverloaded, Text: "Hello,", Says: "overloaded"},
			{Exchange: "whole_cut", Kind: llm.KindUnavailable, Says: "broke off"},
			{Exchange: "stream_error_plain", Kind: llm.KindRate, Text: "Hello,", Says: "Wait"},
			{Exchange: "stream_error_reason", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
			{Exchange: "http_429_size", Kind: llm.KindTooLong, Status: 429, Says: "too long"},
			{Exchange: "http_400_too_long_vllm", Kind: llm.KindTooLong, Status: 400, Says: "too long"},
			{Exchange: "http_400_too_long_llama", Kind: llm.KindTooLong, Status: 400, Says: "too long"},
			{Exchange: "http_400_refused", Kind: llm.KindRefused, Status: 400, Says: "flagged"},
			{Exchange: "http_400_refused_azure", Kind: llm.KindRefused, Status: 400, Says: "content management policy"},
			{Exchange: "http_403_refused_openrouter", Kind: llm.KindRefused, Status: 403, Says: "Your input was flagged"},
			{Exchange: "http_422_detail", Kind: llm.KindBadRequest, Status: 422, Says: `"msg":"field required"`},
		},
	})
}

func TestQuirks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config openai.Config
		max    int
		want   string // of the body after the messages and the model
	}{
		"none":         {config: openai.Config{API: openai.ChatCompletions}, want: `,"stream":true,"stream_options":{"include_usage":true}}`},
		"a limit":      {config: openai.Config{API: openai.ChatCompletions}, max: 7, want: `,"max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`},
		"an old limit": {config: openai.Config{Compatible: true}, max: 7, want: `,"max_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := llmtest.Greeting()
			req.MaxTokens = c.max
			r, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
				c.config.BaseURL, c.config.HTTPClient = baseURL, client
				return provider(t, c.config)
			}, req)
			if got := bytes.TrimSpace(body); !bytes.HasSuffix(got, []byte("]"+c.want)) {
				t.Errorf("the request ends with %s, want %s", got, c.want)
			}
			if r.Header.Get("Authorization") != "" {
				t.Error("a server that needs no key gets one")
			}
		})
	}
}

// TestEnvironment: nothing is read from the environment, whose key is meant for OpenAI
// itself and not for every compatible server.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: from-the-environment")
	r, _ := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, openai.Config{BaseURL: baseURL, HTTPClient: client, Compatible: true})
	}, llmtest.Greeting())
	for name, values := range r.Header {
		if slices.Contains(values, "from-the-environment") || strings.Contains(values[0], "environment") {
			t.Errorf("%s is %q", name, values)
		}
	}
}

// TestReasoningModels: reasoning models get the limit by its new name.
func TestReasoningModels(t *testing.T) {
	t.Parallel()
	req := llmtest.Greeting()
	req.Model, req.MaxTokens = "gpt-5-mini", 7
	_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
		return provider(t, openai.Config{BaseURL: baseURL, HTTPClient: client, Compatible: true})
	}, req)
	if !bytes.Contains(body, []byte(`"max_completion_tokens":7`)) {
		t.Errorf("the request is %s", body)
	}
}

// TestThoughts: compatible servers that think get it back with all calls, and OpenAI never does.
func TestThoughts(t *testing.T) {
	t.Parallel()
	ask := func(id, metadata string) []llm.Message {
		return []llm.Message{
			{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: id, Name: "add", Arguments: "{}", Metadata: []byte(metadata)}}},
			{Role: llm.RoleTool, ToolCallID: id, Content: "3"},
		}
	}
	for name, c := range map[string]struct {
		compatible bool
		metadata   string
		want       []string // reasoning_content
	}{
		"a server that thinks": {true, `{"reasoning_content":"I think."}`, []string{`" "`, `"I think."`}},
		"one that does not":    {true, `{}`, nil},
		"OpenAI":               {false, `{"reasoning_content":"I think."}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := llmtest.Greeting()
			req.Messages = slices.Concat(req.Messages, ask("call_1", ""), ask("call_2", c.metadata))
			_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
				return provider(t, openai.Config{BaseURL: baseURL, HTTPClient: client, Compatible: c.compatible, API: openai.ChatCompletions})
			}, req)
			var got []string
			for _, m := range regexp.MustCompile(`"reasoning_content":("[^"]*")`).FindAllSubmatch(body, -1) {
				got = append(got, string(m[1]))
			}
			testkit.Equal(t, got, c.want, "the request has the thoughts: %s", body)
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if _, err := openai.New(openai.Config{BaseURL: "localhost:1234"}); err == nil {
		t.Error("New() accepts an address without a scheme")
	}
}
