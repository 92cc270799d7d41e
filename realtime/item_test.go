package realtime

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
)

func TestDecodeItem(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		raw  string
		want Item
		text string
	}{
		"audio without transcript": {
			`{"id":"i","type":"message","role":"user","content":[{"type":"input_audio","transcript":null,"audio":null}]}`,
			Item{ID: "i", Type: "message", Role: "user", Content: []Content{{Type: "input_audio"}}}, "",
		},
		"two parts": {
			`{"type":"message","role":"assistant","content":[{"type":"output_audio","transcript":"a"},{"type":"output_text","text":"b"},{"type":"x"}]}`,
			Item{Type: "message", Role: "assistant", Content: []Content{{Type: "output_audio", Transcript: "a"}, {Type: "output_text", Text: "b"}, {Type: "x"}}}, "a\nb",
		},
		"function call": {
			`{"id":"f","object":"realtime.item","type":"function_call","status":"completed","call_id":"c","name":"n","arguments":"{\"a\":"}`,
			Item{ID: "f", Object: "realtime.item", Type: "function_call", Status: "completed", CallID: "c", Name: "n", Arguments: `{"a":`}, "",
		},
		"odd fields": {
			`{"id":7,"type":"function_call_output","call_id":null,"output":{"a":1}}`,
			Item{ID: "7", Type: "function_call_output", Output: `{"a":1}`}, "",
		},
		"twice": {
			` {"id":"a","content":[{"type":"x"}] , "id":"b","content":[ {"text":"\u00e9\n"}, null ]} `,
			Item{ID: "b", Content: []Content{{Text: "é\n"}, {}}}, "é\n",
		},
		"nothing":      {`null`, Item{}, ""},
		"no content":   {`{"content":null}`, Item{}, ""},
		"unknown type": {`{"id":"m","type":"mcp_list_tools","tools":[{}]}`, Item{ID: "m", Type: "mcp_list_tools"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DecodeItem(json.RawMessage(tt.raw))
			must(t, err)
			testkit.Equal(t, got, tt.want, "got")
			testkit.Equal(t, got.Text(), tt.text, "text")
		})
	}
	for _, raw := range []string{
		``, `5`, `[]`, `{"content":"text"}`, `{"id":`, `{"content":["text"]}`, `{"content":[{}}`, `{"content":[{},]}`, `{"id":"a",}`,
		`{"id":"a"} x`, "{\"id\":\"\xff\"}", `{"id":01}`, `{"content":[` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `]}`,
	} {
		if it, err := DecodeItem(json.RawMessage(raw)); err == nil {
			t.Errorf("%q decodes to %+v", raw, it)
		}
	}
}

func TestDecodeResponse(t *testing.T) {
	t.Parallel()
	conv := "conv_1"
	for name, tt := range map[string]struct {
		raw  string
		want Response
	}{
		"failed": {
			`{"id":"r","status":"failed","status_details":{"type":"failed","error":{"type":"e","code":"rate_limit_exceeded"}},"output":[],"conversation_id":"conv_1","usage":null,"metadata":{"a":"b","n":1}}`,
			Response{
				ID: "r", Status: ResponseFailed, ConversationID: &conv, Output: []Item{}, Metadata: map[string]string{"a": "b", "n": "1"},
				StatusDetails: StatusDetails{Type: "failed", Error: &Error{Type: "e", Code: "rate_limit_exceeded"}},
			},
		},
		"plain string":     {`{"id":"r","status":"cancelled","status_details":"turn_detected"}`, Response{ID: "r", Status: ResponseCancelled, StatusDetails: StatusDetails{Reason: "turn_detected"}}},
		"odd details":      {`{"id":"r","status_details":[1],"usage":"much","metadata":[]}`, Response{ID: "r"}},
		"odd error":        {`{"status_details":{"type":"failed","error":[]}}`, Response{StatusDetails: StatusDetails{Type: "failed"}}},
		"odd output":       {`{"id":"r","output":[{"id":"a"},5,{"content":7}]}`, Response{ID: "r", Output: []Item{{ID: "a"}}}},
		"no output":        {`{"id":"r","output":null}`, Response{ID: "r", Output: []Item{}}},
		"outside":          {`{"id":"r","conversation_id":null}`, Response{ID: "r"}},
		"usage by seconds": {`{"usage":{"type":"duration","seconds":1.5}}`, Response{Usage: &Usage{Type: "duration", Seconds: 1.5}}},
		"usage": {
			`{"usage":{"total_tokens":9,"input_tokens":5,"output_tokens":4,"input_token_details":{"text_tokens":1,"audio_tokens":2,"image_tokens":3,"cached_tokens":4,"cached_tokens_details":{"text_tokens":5,"audio_tokens":6,"image_tokens":7}},"output_token_details":{"text_tokens":8,"audio_tokens":9}}}`,
			Response{Usage: &Usage{
				TotalTokens: 9, InputTokens: 5, OutputTokens: 4, InputAudio: 2, Cached: 4, CachedAudio: 6, OutputAudio: 9,
			}},
		},
		"usage of fractions": {
			`{"usage":{"total_tokens":9.0,"input_tokens":5.9,"output_tokens":"4","input_token_details":{"text_tokens":-1,"audio_tokens":2e0,"cached_tokens":null,"cached_tokens_details":null},"output_token_details":{"audio_tokens":1e400}}}`,
			Response{Usage: &Usage{TotalTokens: 9, InputTokens: 5, InputAudio: 2, OutputAudio: 1 << 53}},
		},
		"usage of a transcription": {
			`{"usage":{"type":"tokens","input_tokens":5,"input_tokens_details":{"audio_tokens":5}}}`,
			Response{Usage: &Usage{Type: "tokens", InputTokens: 5, InputAudio: 5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DecodeResponse(json.RawMessage(tt.raw))
			must(t, err)
			if got.Usage != nil {
				if !json.Valid(got.Usage.Raw) {
					t.Errorf("raw usage is %q", got.Usage.Raw)
				}
				got.Usage.Raw = nil
			}
			got.StatusDetails.Raw = nil
			testkit.Equal(t, got, tt.want, "got")
		})
	}
	if _, err := DecodeResponse(json.RawMessage(`[]`)); err == nil {
		t.Error("an array decodes")
	}
}

func TestBuilders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		got  []byte
		want string
	}{
		"user item": {
			ItemCreate("e1", Item{ID: "i1", Type: ItemMessage, Role: "user", Content: []Content{{Type: ContentInputText, Text: "<a> & b\u2028"}}}, "root"),
			`{"type":"conversation.item.create","event_id":"e1","previous_item_id":"root","item":{"id":"i1","type":"message","role":"user","content":[{"type":"input_text","text":"<a> & b\u2028"}]}}`,
		},
		"empty text":           {ItemCreate("", Item{Type: ItemMessage, Role: "system", Content: []Content{{Type: ContentInputText}}}, ""), `{"type":"conversation.item.create","item":{"type":"message","role":"system","content":[{"type":"input_text","text":""}]}}`},
		"function call":        {ItemCreate("e", Item{Type: ItemFunctionCall, CallID: "c", Name: "n"}, "p"), `{"type":"conversation.item.create","event_id":"e","previous_item_id":"p","item":{"type":"function_call","call_id":"c","name":"n","arguments":""}}`},
		"function call output": {FunctionCallOutput("e", "i", "c", `{"a":1}`), `{"type":"conversation.item.create","event_id":"e","item":{"id":"i","type":"function_call_output","call_id":"c","output":"{\"a\":1}"}}`},
		"empty output":         {FunctionCallOutput("e", "", "c", ""), `{"type":"conversation.item.create","event_id":"e","item":{"type":"function_call_output","call_id":"c","output":""}}`},
		"image":                {ItemCreate("", Item{Type: ItemMessage, Role: "user", Content: []Content{{Type: ContentInputImage, ImageURL: "data:image/png;base64,QQ=="}}}, ""), `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,QQ=="}]}}`},
		"session":              {SessionUpdate("e", json.RawMessage(`{"type":"realtime","audio":{"input":{"turn_detection":null}}}`)), `{"type":"session.update","event_id":"e","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`},
		"response":             {ResponseCreate("e"), `{"type":"response.create","event_id":"e"}`},
		"cancel":               {ResponseCancel("e", ""), `{"type":"response.cancel","event_id":"e"}`},
		"cancel one":           {ResponseCancel("e", "r"), `{"type":"response.cancel","event_id":"e","response_id":"r"}`},
		"clear output":         {OutputAudioBufferClear("e"), `{"type":"output_audio_buffer.clear","event_id":"e"}`},
		"commit":               {InputAudioBufferCommit("e"), `{"type":"input_audio_buffer.commit","event_id":"e"}`},
		"clear":                {InputAudioBufferClear("e"), `{"type":"input_audio_buffer.clear","event_id":"e"}`},
		"error":                {ErrorEvent("ev", Error{Code: "event_not_allowed", Message: "No.", EventID: "c1"}), `{"type":"error","event_id":"ev","error":{"type":"invalid_request_error","code":"event_not_allowed","message":"No.","param":null,"event_id":"c1"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, string(tt.got), tt.want, "got  %s", tt.got)
			if e, err := Decode(tt.got); err != nil || e.Malformed != nil {
				t.Errorf("own event does not decode: %v, %v", err, e.Malformed)
			}
		})
	}
}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"insufficient_quota": true, "invalid_api_key": true, "account_deactivated": true,
		"billing_hard_limit_reached": true, "credit_balance_exhausted": true,
		"response_cancel_not_active": false, "session_expired": false, "conversation_already_has_active_response": false,
		"unknown_parameter": false, "": false,
	} {
		if e := (&Error{Code: code}); e.Fatal() != want {
			t.Errorf("%s: fatal %v", code, e.Fatal())
		}
	}
	if !(&Error{Type: "insufficient_quota"}).Fatal() {
		t.Error("the type insufficient_quota is not fatal")
	}
	for want, e := range map[string]*Error{"c: m": {Code: "c", Message: "m"}, "m": {Message: "m"}, "c": {Code: "c"}, "t": {Type: "t"}} {
		testkit.Equal(t, e.Error(), want, "e.Error()")
	}
}

// TestUsageWithin counts no more than a time allows, and says so.
func TestUsageWithin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		told string
		want Usage
		less bool
	}{
		"what can be":         {`{"seconds":70,"input_tokens":100,"output_tokens":69000,"total_tokens":69100}`, Usage{Seconds: 70, InputTokens: 100, OutputTokens: 69_000, TotalTokens: 69_100}, false},
		"a session of months": {`{"seconds":9999999}`, Usage{Seconds: 70}, true},
		"2^63 tokens":         {`{"output_tokens":9223372036854775808}`, Usage{OutputTokens: 70_000}, true},
		"infinity":            {`{"seconds":1e400,"input_tokens":1e400}`, Usage{Seconds: 70, InputTokens: maxRead}, true},
		"less than nothing":   {`{"seconds":-5,"input_tokens":-1}`, Usage{}, false},
		"words":               {`{"seconds":"long","input_tokens":7}`, Usage{InputTokens: 7}, false},
	} {
		told, err := DecodeUsage([]byte(tt.told))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, less := told.Within(10 * time.Second)
		if got.Raw = nil; less != tt.less || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %+v, less %t", name, got, less)
		}
	}
}

// TestErrorCodes finds the code of an error wherever it stands, and leaves one that means something.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"type":"conversation_already_has_active_response","message":"Busy."}`:                            "conversation_already_has_active_response",
		`{"type":"invalid_request_error","code":409,"message":"It already has an active response."}`:       "conversation_already_has_active_response",
		`{"code":"invalid_request_error","message":"session_expired: sign in again"}`:                      "session_expired",
		`"Incorrect API key provided: sk-x"`:                                                               "invalid_api_key",
		`{"code":"server_error","message":"You exceeded your current quota."}`:                             "insufficient_quota",
		`{"code":"invalid_value","message":"There is no active response, which it already has."}`:          "invalid_value",
		`{"code":"","message":"Nobody knows."}`:                                                            "",
		`{"type":"invalid_request_error","code":"response_cancel_not_active","message":"session expired"}`: "response_cancel_not_active",
	} {
		var e Error
		if err := json.Unmarshal([]byte(raw), &e); err != nil || e.Code != want {
			t.Errorf("%s: code %q, %v", raw, e.Code, err)
		}
	}
}

func TestRedactSession(t *testing.T) {
	t.Parallel()
	keep := func(name string) bool { return name == "mine" }
	raw := `{"type":"session.updated","event_id":"e","x":1e400,"session":{"instructions":"secret words","prompt":{"id":"p"},"expires_at":1789000000123456789,` +
		`"audio":{"output":{"speed":1.0,"voice":"marin"},"input":{"turn_detection":null}},"tool_choice":{"type":"function","name":"theirs"},` +
		`"tools":[{"type":"function","name":"theirs","description":"secret tool"},{"type":"function","name":"mine","parameters":{"minimum":1.0,"big":12345678901234567890}},{"type":"mcp","server_label":"secret server"},5]}}`
	out, err := RedactSession([]byte(raw), keep)
	must(t, err)
	if strings.Contains(string(out), "secret") || strings.Contains(string(out), "theirs") || strings.Contains(string(out), "prompt") {
		t.Errorf("not redacted: %s", out)
	}
	for _, want := range []string{`"speed":1.0`, `"expires_at":1789000000123456789`, `"x":1e400`, `"turn_detection":null`, `"big":12345678901234567890`, `"tool_choice":"auto"`, `"minimum":1.0`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	for _, raw := range []string{`{"type":"session.created","session":null}`, `{"type":"session.created"}`} {
		if out, err := RedactSession([]byte(raw), keep); err != nil || string(out) != raw {
			t.Errorf("%s becomes %s, %v", raw, out, err)
		}
	}
	for _, raw := range []string{`[]`, `{`, `{"session":[]}`, `{"session":{"tools":{"name":"theirs"}}}`, `{"session":"instructions"}`} {
		if out, err := RedactSession([]byte(raw), keep); err == nil {
			t.Errorf("%s becomes %s without an error", raw, out)
		}
	}
	kept := `{"session":{"tool_choice":{"type":"function","name":"mine"},"tools":null},"type":"session.updated"}`
	if out, err := RedactSession([]byte(kept), keep); err != nil || string(out) != kept {
		t.Errorf("%s becomes %s, %v", kept, out, err)
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ raw, path, want string }{
		{`{"a":{"b":{"c":[1, 2]}}}`, "a b c", `[1, 2]`},
		{`{"a":1,"a":{"b":"x"}}`, "a b", `"x"`},
		{`{"a":null}`, "a", `null`},
		{`{"a":null}`, "a b", ``},
		{`{"a":"b"}`, "a b", ``},
		{`{"A":1}`, "a", ``},
		{`{"a":1`, "a", ``},
		{`[{"a":1}]`, "a", ``},
		{``, "a", ``},
		{"{\"a\":\"\xff\"}", "a", ``},
	} {
		testkit.Equal(t, string(Member(json.RawMessage(tt.raw), strings.Fields(tt.path)...)), tt.want, "Member(%s, %s)", tt.raw, tt.path)
	}
}
