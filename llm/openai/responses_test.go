package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/openai"
)

// TestResponses: the Responses API passes the suite.
func TestResponses(t *testing.T) {
	t.Parallel()
	usage := &llmtest.Usage{Input: 12, Output: 5, Cached: 4}
	calls := llmtest.TwoCalls()
	calls[0].ID, calls[1].ID = "call_DdmO9pD3xa9XTPNJ32zg2hcA", "call_1fQkUnZzDiE6Yy4KbSp0r9vM"
	thought := calls
	thought[0].Metadata = `{"reasoning":[{"id":"rs_2","summary":[],"encrypted_content":"gAAAAABo_two"}],` +
		`"before_text":[{"id":"rs_0","summary":[{"type":"summary_text","text":"Let me think."}],"encrypted_content":"gAAAAABo_one"}]}`
	thought[1].Metadata = `{"reasoning":[{"id":"rs_4","summary":[{"type":"summary_text","text":"I think more."}],"encrypted_content":"gAAAAABo_three"}]}`
	llmtest.Run(t, llmtest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) llm.Provider {
			return provider(t, openai.Config{BaseURL: baseURL + "/v1", APIKey: llmtest.Key, HTTPClient: client})
		},
		Keyless: func(t *testing.T, client *http.Client) llm.Provider {
			return provider(t, openai.Config{HTTPClient: client})
		},
		Dir:   "testdata/responses",
		Label: "OpenAI", Named: true,
		Path:      "/v1/responses",
		KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Answers: []llmtest.Answer{
			{Exchange: "filter_in_call", Text: "Let me look.", Stop: llm.StopFilter},
			{Exchange: "other_arguments", Calls: llmtest.TwoCalls(), Usage: usage, Stop: llm.StopToolCalls},
			{Exchange: "refusal", Text: "I cannot do that.", Usage: usage, Stop: llm.StopEnd},
			{Exchange: "two_texts", Text: "One.\n\nTwo.", Usage: usage, Stop: llm.StopEnd},
			{Exchange: "thoughts_before_calls", Thinks: true, Text: "Let me look.", Calls: thought, Usage: usage, Stop: llm.StopToolCalls},
			{Exchange: "length_before_arguments", Text: "Let me look.", Usage: usage, Stop: llm.StopLength},
			{Exchange: "whole", Text: "Let me look.", Calls: llmtest.TwoCalls(), Usage: usage, Stop: llm.StopToolCalls},
			{Exchange: "whole_at_the_end", Text: "Let me look.", Calls: llmtest.TwoCalls(), Usage: usage, Stop: llm.StopToolCalls},
		},
		Failures: []llmtest.Failure{
			{Exchange: "stream_error_event", Kind: llm.KindRate, Text: "Hello,", Says: "Wait"},
			{Exchange: "stream_error_too_long", Kind: llm.KindTooLong, Text: "Hello,", Says: "too long"},
			{Exchange: "stream_error_refused", Kind: llm.KindRefused, Says: "flagged"},
			{Exchange: "stream_error_image", Kind: llm.KindBadRequest, Says: "valid image"},
			{Exchange: "stream_error_empty", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
			{Exchange: "http_400_refused", Kind: llm.KindRefused, Status: 400, Says: "flagged"},
		},
		Requests: map[string]llm.Request{"thoughts": thoughtful()},
	})
}

// thoughtful returns a request in the middle of a turn that follows another one.
func thoughtful() llm.Request {
	call := func(id, metadata string) llm.ToolCall {
		return llm.ToolCall{ID: id, Name: "add", Arguments: `{"a":1,"b":2}`, Metadata: []byte(metadata)}
	}
	result := func(id string) llm.Message {
		return llm.Message{Role: llm.RoleTool, ToolCallID: id, ToolName: "add", Content: "3"}
	}
	const told, hidden = `{"reasoning":[{"id":"rs_1","summary":[{"type":"summary_text","text":"I think."}],"encrypted_content":"gAAAAABo_told"}]}`,
		`{"reasoning":[{"id":"rs_3","summary":[],"encrypted_content":"gAAAAABo_hidden"}],"before_text":[{"id":"rs_2","summary":[],"encrypted_content":"gAAAAABo_first"}]}`
	return llm.Request{Model: "some-model", System: "Be brief.", Messages: []llm.Message{
		{Role: llm.RoleUser, Content: "Add"},
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{call("call_1", told)}},
		result("call_1"),
		{Role: llm.RoleAssistant, Content: "Three."},
		{Role: llm.RoleUser, Content: "Again"},
		{Role: llm.RoleAssistant, Content: "I add.", ToolCalls: []llm.ToolCall{call("call_2", hidden), call("call_3", told)}},
		result("call_2"),
		result("call_3"),
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{call("call_4", `{"signature":"of another vendor"}`)}},
		result("call_4"),
	}}
}

// TestThoughtsOfResponses: what a thought tells comes in paragraphs, and one that nobody could read again is not kept.
func TestThoughtsOfResponses(t *testing.T) {
	t.Parallel()
	f := strict(t, "thoughts", func(string, strictRequest) string { return "" })
	var told strings.Builder
	for d, err := range provider(t, openai.Config{BaseURL: f.URL, HTTPClient: f.Client()}).Stream(t.Context(), llmtest.Greeting()) {
		testkit.Must(t, err)
		told.WriteString(d.Reasoning)
	}
	testkit.Equal(t, told.String(), "Let me think.\n\nI think more.", "the reasoning")
	inClear := strict(t, "thoughts_in_clear", func(string, strictRequest) string { return "" })
	calls, err := ask(t, provider(t, openai.Config{BaseURL: inClear.URL, HTTPClient: inClear.Client()}), "some-model")
	if err != nil || len(calls) != 2 || calls[0].Metadata != nil {
		t.Errorf("Stream() yields the calls %+v, %v", calls, err)
	}
}

// TestLimitsOfResponses: the API has a least limit, and models that do not reason refuse to be asked for thoughts.
func TestLimitsOfResponses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model     string
		max, want int
		thinks    bool
	}{{"gpt-5.4-mini", 5, 16, true}, {"gpt-4.1-mini", 50, 50, false}, {"gpt-5.4-mini", 0, 0, true}} {
		f := strict(t, "text", func(_ string, r strictRequest) string {
			if r.MaxOutput != c.want || (r.Include != nil) != c.thinks {
				t.Errorf("%s: the limit is %d, the request includes %q", c.model, r.MaxOutput, r.Include)
			}
			return ""
		})
		req := llmtest.Greeting()
		req.Model, req.MaxTokens = c.model, c.max
		for _, err := range provider(t, openai.Config{BaseURL: f.URL, HTTPClient: f.Client()}).Stream(t.Context(), req) {
			if err != nil {
				t.Error(err)
			}
		}
	}
}
