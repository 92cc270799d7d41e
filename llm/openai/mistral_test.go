package openai_test

import (
	"bytes"
	"net/http"
	"net/url"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/openai"
)

// elsewhere sends requests to another host than that of their address.
type elsewhere struct {
	http.RoundTripper

	host string
}

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host = e.host
	return e.RoundTripper.RoundTrip(r)
}

// TestMistral: models of Mistral accept only ids and orders of their own form, and Mistral itself no options of the stream.
func TestMistral(t *testing.T) {
	t.Parallel()
	add := func(ids ...string) (all []llm.Message) {
		m := llm.Message{Role: llm.RoleAssistant}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id, Name: "add", Arguments: "{}"})
			all = append(all, llm.Message{Role: llm.RoleTool, ToolCallID: id, Content: "3"})
		}
		return append([]llm.Message{m}, all...)
	}
	say := func(role llm.Role, words string) llm.Message { return llm.Message{Role: role, Content: words} }
	req := llm.Request{Messages: []llm.Message{say(llm.RoleUser, "a")}}
	req.Messages = append(req.Messages, add("D681PevKs", "call_4SkgXbCqJ2QVz3")...)
	req.Messages = append(req.Messages, say(llm.RoleUser, "b"), say(llm.RoleAssistant, "c"), say(llm.RoleSystem, "d"), say(llm.RoleSystem, "e"), say(llm.RoleUser, "f"))
	req.Messages = append(req.Messages, add("call_1")...)
	req.Messages = append(req.Messages, say(llm.RoleSystem, "g"), say(llm.RoleUser, "h"))
	req.Messages = append(req.Messages, add("call_1")...)

	call := func(ids ...string) string {
		calls, results := "", ""
		for _, id := range ids {
			calls += `,{"id":"` + id + `","type":"function","function":{"name":"add","arguments":"{}"}}`
			results += `,{"role":"tool","content":"3","tool_call_id":"` + id + `"}`
		}
		return `,{"role":"assistant","tool_calls":[` + calls[1:] + `]}` + results
	}
	const noAnswer = `,{"role":"assistant","content":"(No answer.)"}`
	strict := `[{"role":"user","content":"a"}` + call("D681PevKs", "5919dbc92") + noAnswer + `,{"role":"user","content":"b"},{"role":"assistant","content":"c"}` +
		`,{"role":"user","content":"<system>\nd\n</system>\n\n<system>\ne\n</system>\n\nf"}` + call("74196fe72") + noAnswer +
		`,{"role":"user","content":"<system>\ng\n</system>\n\nh"}` + call("74196fe72") + `]`
	loose := `[{"role":"user","content":"a"}` + call("D681PevKs", "call_4SkgXbCqJ2QVz3") + `,{"role":"user","content":"b"},{"role":"assistant","content":"c"}` +
		`,{"role":"user","content":"<system>\nd\n</system>\n\n<system>\ne\n</system>\n\nf"}` + call("call_1") +
		`,{"role":"user","content":"<system>\ng\n</system>\n\nh"}` + call("call_1") + `]`
	for model, c := range map[string]struct {
		host    string
		want    string
		options bool
	}{
		"mistral-large-latest":       {"api.mistral.ai", strict, false},
		"mistralai/Pixtral-12B-2409": {"vllm.example.org", strict, true},
		"kimi-k2":                    {"vllm.example.org", loose, true},
	} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			req := req
			req.Model = model
			_, body := llmtest.Sent(t, func(baseURL string, client *http.Client) llm.Provider {
				u, err := url.Parse(baseURL)
				testkit.Must(t, err)
				client.Transport = elsewhere{client.Transport, u.Host}
				return provider(t, openai.Config{BaseURL: "http://" + c.host + "/v1", HTTPClient: client, Compatible: true})
			}, req)
			if !bytes.Contains(body, []byte(`"messages":`+c.want+`,`)) {
				t.Errorf("the request is\n%s\nwant one with\n%s", body, c.want)
			}
			if got := bytes.Contains(body, []byte(`"stream_options"`)); got != c.options {
				t.Errorf("options of the stream: %t, want %t", got, c.options)
			}
		})
	}
}
