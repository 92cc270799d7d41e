package openai

import (
	"encoding/json"
	"testing"

	"voicebridge/llm"
)

// TestContentInParts reads what servers write in place of a text.
func TestContentInParts(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]content{
		`"Hello"`:   {text: "Hello"},
		`null`:      {},
		`7`:         {},
		`{"a":1}`:   {},
		`[]`:        {},
		`["x", 7]`:  {},
		`[{"a":1}]`: {},
		`[{"type":"text","text":"Hello"},{"type":"text","text":" there"}]`:                               {text: "Hello there"},
		`[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Hello"}]`: {"Hello", "Hm."},
		`[{"type":"thinking","thinking":"Hm.","closed":true}]`:                                           {thought: "Hm."},
		`[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}]`:                        {thought: "Hm."},
		`[{"type":"reference","reference_ids":[1]},{"type":"text","text":"."}]`:                          {text: "."},
		`[{"type":"refusal","refusal":"No."}]`:                                                           {text: "No."},
		`[{"type":"text","text":["odd"]},{"type":"text","text":"kept"}]`:                                 {text: "kept"},
	} {
		var got content
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

// TestUsageElsewhere finds the usage wherever servers put it, and believes no number that cannot be.
func TestUsageElsewhere(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]*llm.Usage{
		`{"choices":[{"delta":{}}]}`:                                                                           nil,
		`{"choices":[{"usage":{"prompt_tokens":10,"completion_tokens":2}}]}`:                                   {InputTokens: 10, OutputTokens: 2},
		`{"x_groq":{"usage":{"prompt_tokens":10.0,"completion_tokens":"2"}}}`:                                  {InputTokens: 10, OutputTokens: 2},
		`{"usage":{"input_tokens":10,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}`:           {InputTokens: 10, OutputTokens: 2, CachedTokens: 4},
		`{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":-5}}`:                               {},
		`{"usage":{"prompt_tokens":{"odd":1},"completion_tokens":2,"prompt_tokens_details":"none"}}`:           {OutputTokens: 2},
		`{"usage":{"prompt_tokens":1e3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":null}}}`: {InputTokens: 1000, OutputTokens: 2},
	} {
		a := new(answer)
		if _, problem := a.Event([]byte(event)); problem != nil {
			t.Errorf("%s: %+v", event, problem)
		}
		switch {
		case (a.usage == nil) != (want == nil):
			t.Errorf("%s: %+v", event, a.usage)
		case want == nil:
		case a.usage.InputTokens != want.InputTokens, a.usage.OutputTokens != want.OutputTokens, a.usage.CachedTokens != want.CachedTokens:
			t.Errorf("%s: %+v", event, a.usage)
		}
	}
}
