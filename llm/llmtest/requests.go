package llmtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/llm"
)

var update = flag.Bool("update", false, "write the golden files of requests")

// definitions are tools. The properties of the first are not in alphabetical order, the second has an
// almost empty schema, the third none.
var definitions = []llm.Tool{
	{Name: "add", Description: "Adds <two> numbers.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"b":{"type":"number"},"a":{"type":"number","enum":[1,2]}},"required":["b","a"],"additionalProperties":false}`)},
	{Name: "server__get-time", Parameters: json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema"}`)},
	{Name: "ping", Description: "Does nothing."},
}

func user(text string) llm.Message   { return llm.Message{Role: llm.RoleUser, Content: text} }
func system(text string) llm.Message { return llm.Message{Role: llm.RoleSystem, Content: text} }
func assistant(text string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Content: text, ToolCalls: calls}
}
func sum(id, text string) llm.Message {
	return llm.Message{Role: llm.RoleTool, ToolCallID: id, ToolName: "add", Content: text}
}
func picture(id, text string, image llm.Image) llm.Message {
	m := sum(id, text)
	m.Images = []llm.Image{image}
	return m
}
func failed(m llm.Message) llm.Message {
	m.Failed = true
	return m
}

// requests are sent, and compared with testdata/requests/NAME.json.
var requests = []struct {
	name string
	req  llm.Request
}{
	{"greeting", greeting},
	{"bare", llm.Request{Model: "some-model", Messages: []llm.Message{user("Hello")}}},
	{"tools", llm.Request{Model: "some-model", System: "Be brief.", MaxTokens: 4096, Tools: definitions, Messages: []llm.Message{user("Add & <go>")}}},
	{"must_call", llm.Request{Model: "some-model", MustCall: true, Tools: definitions[:1], Messages: []llm.Message{user("Add")}}},
	{"schema", llm.Request{Model: "some-model", Messages: []llm.Message{user("Read it.")}, Schema: json.RawMessage(
		`{"type":"object","properties":{"facts":{"type":"object","properties":{"city":{"type":"string"}},"additionalProperties":true},"all":{"type":"array","items":{"type":"object"}}},"required":["facts"]}`)}},
	{"tool_round", llm.Request{Model: "some-model", System: "Be brief.", Tools: definitions[:1], Messages: []llm.Message{
		user("Add twice"),
		assistant("I add.", llm.ToolCall{ID: "call_1", Name: "add", Arguments: `{"b": 2, "a": 12345678901234567890}`},
			llm.ToolCall{ID: "call_2", Name: "add", Arguments: `{}`}),
		sum("call_1", `{"sum":3}`),
		failed(sum("call_2", "Error: a is missing")),
	}}},
	{"tool_rounds", llm.Request{Model: "some-model", Tools: definitions[:1], Messages: []llm.Message{
		user("Add"),
		assistant("", llm.ToolCall{ID: "call_1", Name: "add", Arguments: `{"a":1,"b":2}`}),
		sum("call_1", "3"),
		assistant("", llm.ToolCall{ID: "call_2", Name: "add", Arguments: `{"a":3,"b":2}`}),
		sum("call_2", ""),
		assistant("Five."),
		user("Thanks"),
	}}},
	{"calls_without_tools", llm.Request{Model: "some-model", Messages: []llm.Message{
		user("Add"),
		assistant("", llm.ToolCall{ID: "call_1", Name: "add", Arguments: `{"a":1,"b":2}`}),
		sum("call_1", "3"),
	}}},
	{"system_messages", llm.Request{Model: "some-model", System: "Be brief.", Messages: []llm.Message{
		system("Speak German."),
		user("Hello"),
		assistant("Hallo."),
		system("Now speak French."),
		user("Hello"),
		assistant("Salut."),
		system("Say goodbye."),
	}}},
	{"same_roles", llm.Request{Model: "some-model", System: "Be brief.", Messages: []llm.Message{
		user("One"), user("Two"), assistant("Three"), assistant("Four"), user("Five"),
	}}},
	{"assistant_first", llm.Request{Model: "some-model", Messages: []llm.Message{
		assistant("How can I help?"), user("Say yes"),
	}}},
	{"only_system", llm.Request{Model: "some-model", System: "Be brief.", Messages: []llm.Message{system("Greet the user.")}}},
	{"empty_texts", llm.Request{Model: "some-model", Messages: []llm.Message{
		user("One"), assistant(""), user(" \n"), assistant("Two "), user("Three"),
	}}},
	{"calls_of_others", llm.Request{Model: "some-model", Tools: definitions[:1], Messages: []llm.Message{
		user("Add"),
		assistant("",
			llm.ToolCall{ID: "functions.add:0", Name: "add", Arguments: `not json`},
			llm.ToolCall{ID: "a-very-long-id-that-is-longer-than-the-forty-characters-of-openai-and-the-sixty-four-of-others", Name: "add", Arguments: `[1]`},
			llm.ToolCall{ID: "call_3", Name: "add", Metadata: json.RawMessage(`{"other":"vendor"}`)}),
		sum("functions.add:0", "3"),
		sum("a-very-long-id-that-is-longer-than-the-forty-characters-of-openai-and-the-sixty-four-of-others", "[3]"),
		sum("call_3", "null"),
		user("Go on"),
	}}},
	{"images", llm.Request{Model: "some-model", Messages: []llm.Message{
		{Role: llm.RoleUser, Content: "What is this?", Images: []llm.Image{{MediaType: "image/png", Data: []byte("\x89PNG")}, {MediaType: "image/jpeg", Data: []byte("\xff\xd8")}}},
		assistant("A dot."),
		{Role: llm.RoleUser, Images: []llm.Image{{MediaType: "image/webp", Data: []byte("RIFF")}}},
	}}},
	{"images_of_tools", llm.Request{Model: "some-model", Tools: definitions[:1], Messages: []llm.Message{
		user("Add"),
		assistant("", llm.ToolCall{ID: "call_1", Name: "add", Arguments: `{"a":1,"b":2}`}, llm.ToolCall{ID: "call_2", Name: "add", Arguments: `{"a":2,"b":2}`}),
		picture("call_1", "[image, image/png]", llm.Image{MediaType: "image/png", Data: []byte("\x89PNG")}),
		picture("call_2", "", llm.Image{MediaType: "image/jpeg", Data: []byte("\xff\xd8")}),
		user("Thanks"),
	}}},
	{"sampling", llm.Request{Model: "some-model", MaxTokens: 50, Temperature: new(0.0), TopP: new(0.5), Messages: []llm.Message{user("Hello")}}},
	{"signature", llm.Request{Model: "some-model", Tools: definitions[:1], Messages: []llm.Message{
		user("Add"),
		assistant("", llm.ToolCall{ID: "call_1", Name: "add", Arguments: `{"a":1,"b":2}`, Metadata: json.RawMessage(`{"thoughtSignature":"c2lnbmF0dXJl"}`)}),
		sum("call_1", "3"),
	}}},
}

func (w Wire) requests(t *testing.T) {
	t.Parallel()
	all := maps.Clone(w.Requests)
	if all == nil {
		all = map[string]llm.Request{}
	}
	for _, r := range requests {
		all[r.name] = r.req
	}
	for name, req := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, w.exchange(t, "text"))
			p := w.New(t, s.URL, s.client(t))
			for range 2 {
				if _, err := drain(t, p, t.Context(), req); err != nil {
					t.Fatalf("Stream() = %v", err)
				}
			}
			sent, bodies := s.seen()
			if !bytes.Equal(bodies[0], bodies[1]) {
				t.Errorf("the same request is written in two ways:\n%s\n%s", bodies[0], bodies[1])
			}
			r := sent[0]
			path := strings.ReplaceAll(w.Path, "MODEL", req.Model)
			if r.Method != http.MethodPost || r.URL.RequestURI() != path || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
				t.Errorf("the request is %s %s of %q, want POST %s of JSON", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), path)
			}
			if w.KeyHeader != "" && r.Header.Get(w.KeyHeader) != w.KeyPrefix+Key {
				t.Errorf("%s is %q, want the key", w.KeyHeader, r.Header.Get(w.KeyHeader))
			}
			golden(t, w.file("requests", name+".json"), bodies[0])
		})
	}
}

// golden compares a request with a file. The order of fields matters, because providers cache by
// prefixes.
func golden(t *testing.T, file string, body []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, bytes.TrimSpace(body), "", "  "); err != nil {
		t.Fatalf("the request is not JSON: %v", err)
	}
	got.WriteByte('\n')
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// Sent returns what a provider sends for one request, which is answered by the adapter's exchange
// text.
func Sent(t *testing.T, setup func(baseURL string, client *http.Client) llm.Provider, req llm.Request) (*http.Request, []byte) {
	t.Helper()
	s := serve(t, Wire{}.exchange(t, "text"))
	if _, err := drain(t, setup(s.URL, s.client(t)), t.Context(), req); err != nil {
		t.Fatalf("Stream() = %v", err)
	}
	sent, bodies := s.seen()
	return sent[0], bodies[0]
}

// Greeting is a small request.
func Greeting() llm.Request { return greeting }
