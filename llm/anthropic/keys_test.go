package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/anthropic"
)

// TestNamesOfProperties: the API refuses a whole request because of a property's name. It gets another one, which the
// tool does not see.
func TestNamesOfProperties(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		schema, sent string
		arguments    string // of the model
		want         string
	}{
		"accepted": {`{"type":"object","properties":{"b":{}, "a.b-c_1":{}}}`, `{"type":"object","properties":{"b":{},"a.b-c_1":{}}}`, `{"b": 1}`, `{"b": 1}`},
		"odd": {
			`{"type":"object","properties":{"$top":{"type":"integer"},"q":{}},"required":["q","$top"],"additionalProperties":false}`,
			`{"additionalProperties":false,"properties":{"_top":{"type":"integer"},"q":{}},"required":["q","_top"],"type":"object"}`,
			`{"q":"<a>","_top":12345678901234567890}`, `{"$top":12345678901234567890,"q":"\u003ca\u003e"}`,
		},
		"alike": {
			`{"type":"object","properties":{"$top":{},"@top":{},"_top":{}}}`,
			`{"properties":{"_top":{},"call_1c207f7b031f77aadd17261ed07da37c":{},"call_81bf98e4094e904fa7d8a50b7261f75d":{}},"type":"object"}`,
			`{"_top":1}`, `{"_top":1}`,
		},
		"long": {
			`{"type":"object","properties":{"` + long + `":{}}}`, `{"properties":{"call_9537c5fdf120482f7d58d25e9ed583f5":{}},"type":"object"}`,
			`{"call_9537c5fdf120482f7d58d25e9ed583f5":2}`, `{"` + long + `":2}`,
		},
		"broken arguments": {`{"type":"object","properties":{"$top":{}}}`, `{"properties":{"_top":{}},"type":"object"}`, `{"_top":`, `{"_top":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				for _, event := range []string{
					`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"list","input":{}}}`,
					fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":%q}}`, c.arguments),
					`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`,
				} {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
				}
			}))
			t.Cleanup(server.Close)
			p := provider(t, anthropic.Config{BaseURL: server.URL, HTTPClient: server.Client()})
			var got string
			for d, err := range p.Stream(t.Context(), llm.Request{
				Model: "some-model", Messages: []llm.Message{{Role: llm.RoleUser, Content: "List"}},
				Tools: []llm.Tool{{Name: "other", Parameters: []byte(`{"type":"object","properties":{"$q":{}}}`)}, {Name: "list", Parameters: []byte(c.schema)}},
			}) {
				testkit.Must(t, err)
				if d.ToolCall != nil {
					got = d.ToolCall.Arguments
				}
			}
			if !strings.Contains(string(body), `"name":"list","input_schema":`+c.sent+`}`) {
				t.Errorf("the request is %s, want one with %s", body, c.sent)
			}
			testkit.Equal(t, got, c.want, "the arguments")
		})
	}
}
