package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/openai"
)

// fake is a server as strict as OpenAI's: it refuses what the real one refuses.
type fake struct {
	*httptest.Server

	// refuse returns why a request is refused, after the name of a parameter and a colon if the error names one; empty
	// accepts it.
	refuse func(path string, r strictRequest) string

	mu   sync.Mutex
	seen []string // what came, in short
}

// strictRequest has the fields of both APIs that the fake knows; any other is refused.
type strictRequest struct {
	Model         string          `json:"model"`
	Messages      json.RawMessage `json:"messages"`
	Instructions  string          `json:"instructions"`
	Input         []strictItem    `json:"input"`
	Tools         json.RawMessage `json:"tools"`
	Effort        string          `json:"reasoning_effort"`
	Include       []string        `json:"include"`
	Store         *bool           `json:"store"`
	MaxOutput     int             `json:"max_output_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions json.RawMessage `json:"stream_options"`
}

type strictItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

// strict starts a fake. exchange is what it answers, of the folder of each API.
func strict(t *testing.T, exchange string, refuse func(path string, r strictRequest) string) *fake {
	t.Helper()
	f := &fake{refuse: refuse}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request strictRequest
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		var why string
		if err := decoder.Decode(&request); err != nil {
			why = err.Error()
		} else {
			why = f.refuse(r.URL.Path, request)
		}
		f.mu.Lock()
		f.seen = append(f.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s", filepath.Base(r.URL.Path), request.Effort, request.StreamOptions)))
		f.mu.Unlock()
		if why != "" {
			w.WriteHeader(http.StatusBadRequest)
			param, words, named := strings.Cut(why, ": ")
			failure := map[string]any{"message": words, "type": "invalid_request_error", "param": param, "code": nil}
			if !named {
				failure["message"], failure["param"] = why, nil
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"error": failure})
			return
		}
		folder := "testdata"
		if strings.HasSuffix(r.URL.Path, "/responses") {
			folder = "testdata/responses"
		}
		raw, err := os.ReadFile(filepath.Join(folder, "exchanges", exchange+".http"))
		if err != nil {
			t.Error(err)
		}
		_, body, _ := strings.Cut(string(raw), "\n\n")
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(f.Close)
	return f
}

// ask sends a request with a tool and returns the answer's calls.
func ask(t *testing.T, p llm.Provider, model string, messages ...llm.Message) (calls []llm.ToolCall, err error) {
	t.Helper()
	req := llmtest.Greeting()
	req.Model, req.Messages = model, append(req.Messages, messages...)
	req.Tools = []llm.Tool{{Name: "add"}}
	for d, err := range p.Stream(t.Context(), req) {
		if err != nil {
			return nil, err
		}
		if d.ToolCall != nil {
			calls = append(calls, *d.ToolCall)
		}
	}
	return calls, nil
}

// TestRefusals: a request is made as the model accepts it. What the server refuses, in a field or in words, is left out, from
// then on if that has helped.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const usage = `{"include_usage":true}`
	noEffort := func(_ string, r strictRequest) string {
		if r.Effort != "" {
			return "reasoning_effort: Unrecognized request argument supplied."
		}
		return ""
	}
	for name, c := range map[string]struct {
		config openai.Config
		model  string
		refuse func(path string, r strictRequest) string
		want   []string // of two requests
		fails  string
	}{
		"Chat Completions without reasoning, by the model's name": {
			config: openai.Config{Compatible: true}, model: "openai/gpt-5.6-terra",
			refuse: func(_ string, r strictRequest) string {
				if r.Effort != "none" {
					return "reasoning_effort: Function tools need none."
				}
				return ""
			},
			want: []string{"completions none " + usage, "completions none " + usage},
		},
		"Chat Completions without reasoning, because the server names it": {
			config: openai.Config{API: openai.ChatCompletions}, model: "gpt-6-sol",
			refuse: func(_ string, r strictRequest) string {
				if r.Effort != "none" {
					return "reasoning_effort: Function tools need none."
				}
				return ""
			},
			want: []string{"completions  " + usage, "completions none " + usage, "completions none " + usage},
		},
		"no reasoning_effort": {
			config: openai.Config{Compatible: true}, model: "gpt-5.6", refuse: noEffort,
			want: []string{"completions none " + usage, "completions  " + usage, "completions  " + usage},
		},
		"no reasoning_effort, as the settings say": {
			config: openai.Config{Compatible: true, Rules: []llm.Rule{{Models: []string{"gpt-5.6*"}, Accepts: llm.Accepts{NoStreamOptions: true}}}},
			model:  "gpt-5.6", refuse: noEffort,
			want: []string{"completions", "completions"},
		},
		"an older model": {
			config: openai.Config{Compatible: true}, model: "gpt-5.4-mini", refuse: noEffort,
			want: []string{"completions  " + usage, "completions  " + usage},
		},
		"no stream_options": {
			config: openai.Config{Compatible: true}, model: "some-model",
			refuse: func(_ string, r strictRequest) string {
				if r.StreamOptions != nil {
					return "stream_options.include_usage: Extra inputs are not permitted."
				}
				return ""
			},
			want: []string{"completions  " + usage, "completions", "completions"},
		},
		"no stream_options, in words only": {
			config: openai.Config{Compatible: true}, model: "some-model",
			refuse: func(_ string, r strictRequest) string {
				if r.StreamOptions != nil {
					return "stream_options is not supported"
				}
				return ""
			},
			want: []string{"completions  " + usage, "completions", "completions"},
		},
		"a model that does not reason": {
			model: "o-nothing",
			refuse: func(_ string, r strictRequest) string {
				if r.Include != nil {
					return "include: Encrypted content is not supported with this model."
				}
				return ""
			},
			want: []string{"responses", "responses", "responses"},
		},
		"everything": {
			config: openai.Config{Compatible: true}, model: "gpt-5.6",
			refuse: func(string, strictRequest) string { return "stream_options: no" },
			want:   []string{"completions none " + usage, "completions none", "completions none " + usage, "completions none"}, fails: "does not accept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := strict(t, "text", c.refuse)
			c.config.BaseURL, c.config.HTTPClient = f.URL+"/v1", f.Client()
			p := provider(t, c.config)
			for range 2 {
				if _, err := ask(t, p, c.model); (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("Stream() = %v, want %q", err, c.fails)
				}
			}
			testkit.Equal(t, f.seen, c.want, "the server saw")
		})
	}
}

// TestReasoningComesBack: OpenAI gets back what the model thought before its calls, in its place, and stores nothing.
func TestReasoningComesBack(t *testing.T) {
	t.Parallel()
	f := strict(t, "thoughts_before_calls", func(_ string, r strictRequest) string {
		if r.Store == nil || *r.Store || !r.Stream || !slices.Equal(r.Include, []string{"reasoning.encrypted_content"}) {
			return "the request is not stateless"
		}
		var got []string
		for _, i := range r.Input {
			got = append(got, i.Type+" "+i.Encrypted+i.CallID)
		}
		if want := []string{
			"message ", "reasoning gAAAAABo_one", "reasoning gAAAAABo_two", "function_call call_DdmO9pD3xa9XTPNJ32zg2hcA",
			"reasoning gAAAAABo_three", "function_call call_1fQkUnZzDiE6Yy4KbSp0r9vM", "function_call_output call_DdmO9pD3xa9XTPNJ32zg2hcA",
		}; len(got) > 1 && !slices.Equal(got, want) {
			return fmt.Sprintf("the input is %q, want %q", got, want)
		}
		return ""
	})
	p := provider(t, openai.Config{BaseURL: f.URL, HTTPClient: f.Client()})
	calls, err := ask(t, p, "gpt-5.6-sol")
	if err != nil || len(calls) != 2 {
		t.Fatalf("Stream() yields %d calls, %v", len(calls), err)
	}
	_, err = ask(t, p, "gpt-5.6-sol", llm.Message{Role: llm.RoleAssistant, ToolCalls: calls}, llm.Message{Role: llm.RoleTool, ToolCallID: calls[0].ID, Content: "noon"})
	if err != nil {
		t.Errorf("Stream() = %v", err)
	}
}

// TestLabel: a failure names the server that was asked.
func TestLabel(t *testing.T) {
	t.Parallel()
	f := strict(t, "text", func(string, strictRequest) string { return "no" })
	for _, compatible := range []bool{true, false} {
		_, err := ask(t, provider(t, openai.Config{BaseURL: f.URL + "/v1", HTTPClient: f.Client(), Compatible: compatible}), "some-model")
		want := "OpenAI does not accept the request: no"
		if compatible {
			want = strings.TrimPrefix(f.URL, "http://") + " does not accept the request: no"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Stream() = %v, want %q", err, want)
		}
	}
}

// TestThoughtsInTheText: what a compatible server's model thinks at the beginning of its text is not its answer.
func TestThoughtsInTheText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		compatible      bool
		text, reasoning string
	}{
		"a compatible server": {true, "ok </think>", "I think a <b> is"},
		"OpenAI":              {false, "\n<think>\nI think a <b> is</think>\n\nok </think>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := strict(t, "tagged_thoughts", func(string, strictRequest) string { return "" })
			p := provider(t, openai.Config{BaseURL: f.URL, HTTPClient: f.Client(), Compatible: c.compatible, API: openai.ChatCompletions})
			var text, reasoning strings.Builder
			for d, err := range p.Stream(t.Context(), llmtest.Greeting()) {
				testkit.Must(t, err)
				text.WriteString(d.Text)
				reasoning.WriteString(d.Reasoning)
			}
			if text.String() != c.text || reasoning.String() != c.reasoning {
				t.Errorf("Stream() yields %q after %q, want %q after %q", text.String(), reasoning.String(), c.text, c.reasoning)
			}
		})
	}
}
