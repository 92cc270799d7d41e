package llm_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"voicebridge/llm"
)

// model answers unless refuse returns what it says instead.
func model(refuse func(llm.Request, llm.Accepts) (kind llm.ErrorKind, said string)) func(llm.Request, llm.Accepts) iter.Seq2[llm.Delta, error] {
	return func(req llm.Request, a llm.Accepts) iter.Seq2[llm.Delta, error] {
		return func(yield func(llm.Delta, error) bool) {
			if kind, said := refuse(req, a); said != "" {
				yield(llm.Delta{}, &llm.Error{Kind: kind, Status: 400, Said: strings.ToLower(said)})
				return
			}
			_ = yield(llm.Delta{}, nil) && yield(llm.Delta{Text: "ok"}, nil) && yield(llm.Delta{Stop: llm.StopEnd}, nil)
		}
	}
}

// full is a request with everything that a model may refuse.
func full() llm.Request {
	return llm.Request{
		Model: "m", System: "Be brief.", MaxTokens: 100, Temperature: new(0.5), TopP: new(0.5), Tools: []llm.Tool{{Name: "get_weather"}},
		Messages: []llm.Message{
			{Role: llm.RoleUser, Content: "What is this?", Images: []llm.Image{{}}},
			{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "1", Name: "get_weather", Arguments: "{}"}}},
			{Role: llm.RoleTool, ToolCallID: "1", ToolName: "get_weather", Content: "rain"},
		},
	}
}

// TestRefusalsInWords leaves out what a model refuses, in the words of any server, and remembers that; what is wrong with one
// tool or one image, and refusals of other kinds, are not taken for that.
func TestRefusalsInWords(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"registry.ollama.ai/library/smollm2:135m does not support tools":                                    "tools",
		`"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`:            "tools",
		"Thinking may not be enabled when tool_choice forces tool use.":                                     "tool_choice",
		"No endpoints found that support tool use. Try disabling \"x\".":                                    "tools",
		"Function calling is not enabled for models/gemma-3-27b-it":                                         "tools",
		"tools param requires --jinja flag":                                                                 "tools",
		"deepseek-reasoner does not support Function Calling":                                               "tools",
		"body tools Extra inputs are not permitted":                                                         "tools",
		"Invalid schema for function 'get_weather': 'oneOf' is not permitted":                               "",
		"tools.3.custom.input_schema: JSON schema is not supported":                                         "",
		"messages with role 'tool' are not allowed here":                                                    "",
		"messages[1]: unknown variant `image_url`, expected `text`":                                         "images",
		"image input is not supported - hint: you may need to provide the mmproj":                           "images",
		"At most 0 image(s) may be provided in one request.":                                                "images",
		"unsupported image format: image/webp":                                                              "",
		"Developer instruction is not enabled for models/gemma-3-27b-it":                                    "system messages",
		"System role not supported":                                                                         "system messages",
		"Unsupported value: 'messages[0].role' does not support 'system' with this model.":                  "system messages",
		"Unsupported value: 'temperature' does not support 0.5 with this model. Only 1 is supported.":       "temperature, top_p",
		"invalid temperature: only 0.6 is allowed for this model":                                           "temperature, top_p",
		"`temperature` and `top_p` cannot both be specified for this model.":                                "top_p",
		"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.":                         "the old name of max_tokens",
		"max_tokens: 100 > 50, which is the maximum allowed number of output tokens":                        "max_tokens",
		"Unable to submit request because it has a maxOutputTokens value of 100 but the range is from 1 to": "max_tokens",
		"Conversation roles must alternate user/assistant/user/assistant/...":                               "messages of one role in a row",
		"Expected last role User or Tool for serving but got assistant":                                     "messages of one role in a row",
		"Error rendering prompt with jinja template":                                                        "messages of one role in a row",
		"The model does not exist":                                                                          "",
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			fit := func(req llm.Request, a llm.Accepts) string {
				images := strings.Count(fmt.Sprint(req.Messages), "[{ []}]")
				return fmt.Sprint(len(req.Tools), req.MustCall, images, req.System != "", req.MaxTokens, req.Temperature != nil, req.TopP != nil, a.NewLimit, a.Strict)
			}
			var r llm.Refusals
			request := full()
			request.MustCall = want == "tool_choice"
			whole := fit(request, llm.Accepts{})
			var seen []string
			send := model(func(req llm.Request, a llm.Accepts) (llm.ErrorKind, string) {
				seen = append(seen, fit(req, a))
				if fit(req, a) != whole {
					return "", ""
				}
				return llm.KindBadRequest, said
			})
			var without []string
			var failed error
			for range 2 {
				for d, err := range r.Stream(request, send) {
					if d.Without != "" {
						without = append(without, d.Without)
					}
					failed = err
				}
			}
			requests := 3
			if want == "" {
				requests = 2
			}
			if strings.Join(without, "; ") != want || (failed == nil) != (want != "") || len(seen) != requests {
				t.Errorf("it goes on without %q, want %q; %v after the requests %q", without, want, failed, seen)
			}
		})
	}
}

// TestRefusalsEnd: what does not help is not remembered, what the request needs is not left out, and a server that refuses
// everything is not asked for ever.
func TestRefusalsEnd(t *testing.T) {
	t.Parallel()
	needs := full()
	needs.NeedsTools = true
	for name, c := range map[string]struct {
		req      llm.Request
		kind     llm.ErrorKind
		said     string
		requests int
	}{
		"everything":       {full(), llm.KindBadRequest, "temperature, max_tokens, stream_options, tools, images and the system role are not supported: roles must alternate", 5},
		"always the same":  {full(), llm.KindUnavailable, "stream_options: no", 2},
		"tools it needs":   {needs, llm.KindBadRequest, "this model does not support tools", 1},
		"a wrong key":      {full(), llm.KindAuth, "your key does not support tools", 1},
		"too many at once": {full(), llm.KindRate, "tools are not available at the moment", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r llm.Refusals
			n := 0
			send := model(func(llm.Request, llm.Accepts) (llm.ErrorKind, string) { n++; return c.kind, c.said })
			var failed error
			for _, err := range r.Stream(c.req, send) {
				failed = err
			}
			if a := r.Accepts("m"); failed == nil || n != c.requests || a.NoTemperature || a.NoStreamOptions || a.NoTools {
				t.Errorf("%v after %d requests, want %d; %+v is remembered", failed, n, c.requests, a)
			}
		})
	}
}

// TestThoughtsAreKnown has a model begin within its thoughts, which later requests know.
func TestThoughtsAreKnown(t *testing.T) {
	t.Parallel()
	var r llm.Refusals
	var known []bool
	for range 2 {
		for range r.Stream(full(), func(_ llm.Request, a llm.Accepts) iter.Seq2[llm.Delta, error] {
			known = append(known, a.ThinksUnasked)
			return func(yield func(llm.Delta, error) bool) {
				_ = yield(llm.Delta{Text: "I think"}, nil) && yield(llm.Delta{Unsaid: !a.ThinksUnasked}, nil)
			}
		}) {
		}
	}
	if fmt.Sprint(known) != "[false true]" {
		t.Errorf("known before each request: %v", known)
	}
}
