package realtimetest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const (
	ga   = `{"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":{"type":"audio/pcm","rate":24000}},"output":{"voice":"eve"}}}}`
	xai  = `{"type":"session.update","session":{"voice":"eve","audio":{"input":{"format":{"type":"audio/pcm","rate":24000}}}}}`
	beta = `{"type":"session.update","session":{"modalities":["text","audio"],"voice":"eve","input_audio_format":"pcm16"}}`
)

// dial connects with headers and a query.
func dial(t *testing.T, url, query string, header http.Header) (*websocket.Conn, int) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	conn, res, err := websocket.Dial(t.Context(), url+"?"+query, &websocket.DialOptions{HTTPHeader: header, HTTPClient: &http.Client{Transport: transport}}) //nolint:bodyclose // of a socket
	if err != nil {
		if res == nil {
			t.Fatal(err)
		}
		return nil, res.StatusCode
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn, res.StatusCode
}

// next reads until an event of one of the types.
func next(t *testing.T, conn *websocket.Conn, types ...string) (ev tree) {
	t.Helper()
	for {
		_, data, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("no %q: %v", types, err)
		}
		ev = nil
		if err := json.Unmarshal(data, &ev); err != nil {
			t.Fatal(err)
		}
		for _, kind := range types {
			if ev["type"] == kind {
				return ev
			}
		}
	}
}

func say(t *testing.T, conn *websocket.Conn, event string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(event)); err != nil {
		t.Fatal(err)
	}
}

func strict(d Dialect) *Strict {
	return &Strict{Dialect: d, Model: "m", Hears: []string{"Hello."}, Answer: func(string) Reply { return Reply{Say: "a b c d", Sound: time.Minute} }}
}

// TestKeys lets in only who sends the key as that upstream wants it, and names the model.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dialect Dialect
		query   string
		header  http.Header
		status  int
	}{
		"bearer":            {Realtime(), "model=m", http.Header{"Authorization": {"Bearer " + Key}}, 101},
		"azure":             {Azure(), "model=m", http.Header{"Api-Key": {Key}}, 101},
		"azure by bearer":   {Azure(), "model=m", http.Header{"Authorization": {"Bearer " + Key}}, 401},
		"azure by both":     {Azure(), "model=m", http.Header{"Api-Key": {Key}, "Authorization": {"Bearer " + Key}}, 401},
		"bearer by api-key": {Realtime(), "model=m", http.Header{"Api-Key": {Key}}, 401},
		"another key":       {Realtime(), "model=m", http.Header{"Authorization": {"Bearer x"}}, 401},
		"the beta":          {Realtime(), "model=m", http.Header{"Authorization": {"Bearer " + Key}, "Openai-Beta": {"realtime=v1"}}, 400},
		"no model":          {Realtime(), "", http.Header{"Authorization": {"Bearer " + Key}}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := strict(tt.dialect)
			if _, status := dial(t, s.Serve(t), tt.query, tt.header); status != tt.status {
				t.Errorf("status %d", status)
			}
			if refused := len(s.Refused()); (refused > 0) != (tt.status != 101) {
				t.Errorf("refused: %q", s.Refused())
			}
		})
	}
}

// TestRefusals sends what each kind of upstream does not take.
func TestRefusals(t *testing.T) {
	t.Parallel()
	sound := base64.StdEncoding.EncodeToString(make([]byte, 4800))
	spoken := []string{ga, `{"type":"response.create"}`} // an answer is being made
	for name, tt := range map[string]struct {
		dialect Dialect
		events  []string // the last one is refused
		code    string
	}{
		"sound before the settings":     {Realtime(), []string{`{"type":"input_audio_buffer.append","audio":"` + sound + `"}`}, "invalid_event"},
		"a response before them":        {Realtime(), []string{`{"type":"response.create"}`}, "invalid_event"},
		"half a sample":                 {Realtime(), []string{ga, `{"type":"input_audio_buffer.append","audio":"AAAA"}`}, "invalid_value"},
		"no base64":                     {Realtime(), []string{ga, `{"type":"input_audio_buffer.append","audio":"!"}`}, "invalid_value"},
		"no type":                       {Realtime(), []string{strings.Replace(ga, `"type":"realtime",`, "", 1)}, "missing_required_parameter"},
		"a field of the beta":           {Realtime(), []string{strings.Replace(ga, `"audio":`, `"modalities":["text"],"audio":`, 1)}, "unknown_parameter"},
		"both modalities":               {Realtime(), []string{strings.Replace(ga, `"audio":`, `"output_modalities":["audio","text"],"audio":`, 1)}, "invalid_value"},
		"another rate":                  {Realtime(), []string{strings.Replace(ga, "24000", "16000", 1)}, "invalid_value"},
		"nested tools":                  {Realtime(), []string{`{"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","function":{"name":"f"}}]}}`}, "missing_required_parameter"},
		"a name of WebRTC":              {Realtime(), []string{`{"type":"output_audio_buffer.clear"}`}, "invalid_value"},
		"another field":                 {Realtime(), []string{`{"type":"response.cancel","why":"so"}`}, "unknown_parameter"},
		"nothing to cancel":             {Realtime(), []string{ga, `{"type":"response.cancel"}`}, "response_cancel_not_active"},
		"a second response":             {Realtime(), append(spoken[:2:2], `{"type":"response.create"}`), "conversation_already_has_active_response"},
		"an item that is not there":     {Realtime(), []string{`{"type":"conversation.item.truncate","item_id":"i","content_index":0,"audio_end_ms":0}`}, "item_truncate_invalid_item_id"},
		"after no such item":            {Realtime(), []string{`{"type":"conversation.item.create","previous_item_id":"i","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}}`}, "item_not_found"},
		"a long id":                     {Realtime(), []string{`{"type":"conversation.item.create","item":{"id":"` + strings.Repeat("i", 33) + `","type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}}`}, "string_above_max_length"},
		"an assistant's text of before": {Realtime(), []string{`{"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}]}}`}, "invalid_value"},
		"an output without a call":      {Realtime(), []string{`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c","output":"o"}}`}, "invalid_value"},
		"an empty buffer":               {Realtime(), []string{ga, `{"type":"input_audio_buffer.commit"}`}, "input_audio_buffer_commit_empty"},
		"sessions of today, before":     {Beta(), []string{ga}, "unknown_parameter"},
		"an assistant's text of today":  {Beta(), []string{`{"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`}, "invalid_value"},
		"OpenAI's session at xAI":       {XAI(), []string{ga}, "unknown_parameter"},
		"its names of languages there":  {XAI(), []string{`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"m","language":"de"}}}}}`}, "unknown_parameter"},
		"semantic turns at xAI":         {XAI(), []string{`{"type":"session.update","session":{"turn_detection":{"type":"semantic_vad"}}}`}, "invalid_value"},
		"a response's tools at xAI":     {XAI(), []string{xai, `{"type":"response.create","response":{"tools":[]}}`}, "unknown_parameter"},
		"another effort":                {Realtime(), []string{strings.Replace(ga, `"audio":`, `"reasoning":{"effort":"much"},"audio":`, 1)}, "invalid_value"},
		"a trace without a form":        {Realtime(), []string{strings.Replace(ga, `"audio":`, `"tracing":{"name":"t"},"audio":`, 1)}, "unknown_parameter"},
		"other limits of tokens":        {Realtime(), []string{strings.Replace(ga, `"audio":`, `"truncation":{"type":"retention_ratio","retention_ratio":0.5,"token_limits":{"n":1}},"audio":`, 1)}, "unknown_parameter"},
		"another part of the answer":    {Realtime(), []string{strings.Replace(ga, `"audio":`, `"include":["logprobs"],"audio":`, 1)}, "invalid_value"},
		"a prompt without an id":        {Realtime(), []string{strings.Replace(ga, `"audio":`, `"prompt":{"version":"1"},"audio":`, 1)}, "missing_required_parameter"},
		"metadata that is no text":      {Realtime(), []string{ga, `{"type":"response.create","response":{"metadata":{"n":1}}}`}, "invalid_type"},
		"input that is no item":         {Realtime(), []string{ga, `{"type":"response.create","response":{"input":[{"type":"words"}]}}`}, "invalid_value"},
		"truncation at xAI":             {XAI(), []string{`{"type":"conversation.item.truncate","item_id":"i","content_index":0,"audio_end_ms":0}`}, "invalid_value"},
		"flat tools at Qwen":            {Qwen(), []string{`{"type":"session.update","session":{"tools":[{"type":"function","name":"f"}]}}`}, "missing_required_parameter"},
		"pcm16 at Qwen":                 {Qwen(), []string{beta}, "invalid_value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := strict(tt.dialect)
			conn, _ := dial(t, s.Serve(t), "model=m", http.Header{"Authorization": {"Bearer " + Key}})
			next(t, conn, "session.created")
			for _, event := range tt.events {
				say(t, conn, event)
			}
			e, _ := next(t, conn, "error")["error"].(tree)
			if e["code"] != tt.code || len(s.Refused()) != 1 {
				t.Errorf("it says %v, refused: %q", e, s.Refused())
			}
		})
	}
}

// TestTruncation takes what was sent of an answer, and not more; and the sound comes faster than it is heard.
func TestTruncation(t *testing.T) {
	t.Parallel()
	s := strict(Realtime())
	conn, _ := dial(t, s.Serve(t), "model=m", http.Header{"Authorization": {"Bearer " + Key}})
	say(t, conn, ga)
	say(t, conn, `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}}`)
	say(t, conn, `{"type":"response.create"}`)
	id := next(t, conn, "response.output_audio.delta")["item_id"].(string)
	say(t, conn, `{"type":"response.cancel"}`)
	next(t, conn, "response.done")
	say(t, conn, `{"type":"conversation.item.truncate","item_id":"`+id+`","content_index":0,"audio_end_ms":60000}`)
	if e, _ := next(t, conn, "error")["error"].(tree); e["code"] != "invalid_value" || e["param"] != "audio_end_ms" {
		t.Errorf("it says %v", e)
	}
	say(t, conn, `{"type":"conversation.item.truncate","item_id":"`+id+`","content_index":0,"audio_end_ms":100}`)
	next(t, conn, "conversation.item.truncated")
	if cuts := s.Sessions()[0].Cuts(); len(cuts) != 1 || cuts[0].Played != 100*time.Millisecond || cuts[0].Sent < cuts[0].Played {
		t.Errorf("cuts %v", cuts)
	}
	if len(s.Refused()) != 1 {
		t.Errorf("refused: %q", s.Refused())
	}
}
