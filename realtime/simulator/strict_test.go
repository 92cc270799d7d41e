package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

func TestRefusesBadEvents(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.send(realtime.ItemCreate("first", realtime.Item{
		ID: "item_a", Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: "hi"}},
	}, "root"))
	c.next(realtime.TypeItemDone)
	c.send([]byte(`{"type":"conversation.item.create","item":{"type":"function_call","call_id":"call_a","name":"f","arguments":"{"}}`))
	c.next(realtime.TypeItemDone)
	c.send(realtime.FunctionCallOutput("", "", "call_a", "1"))
	c.next(realtime.TypeItemDone)

	session := func(s string) string {
		return `{"type":"session.update","event_id":"E","session":{"type":"realtime",` + s + `}}`
	}
	item := func(s string) string { return `{"type":"conversation.item.create","event_id":"E","item":{` + s + `}}` }
	message := func(role, content string) string {
		return item(`"type":"message","role":"` + role + `","content":[` + content + `]`)
	}
	transcription := func(s string) string { return `"audio":{"input":{"transcription":{` + s + `}}}` }
	answer := func(s string) string { return `{"type":"response.create","event_id":"E","response":{` + s + `}}` }
	pairs := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%d":"x"`, i))
		}
		return strings.Join(all, ",")
	}
	long := strings.Repeat("i", 33)
	for name, tt := range map[string]struct{ raw, code, param string }{
		"update without type":      {`{"type":"session.update","event_id":"E","session":{}}`, "missing_required_parameter", "session.type"},
		"update without session":   {`{"type":"session.update","event_id":"E"}`, "missing_required_parameter", "session"},
		"unknown field":            {session(`"modalities":["audio"]`), "unknown_parameter", "session.modalities"},
		"unknown nested field":     {session(`"audio":{"input":{"vad":1}}`), "unknown_parameter", "session.audio.input.vad"},
		"unknown turn field":       {session(`"audio":{"input":{"turn_detection":{"type":"semantic_vad","threshold":0.5}}}`), "unknown_parameter", "session.audio.input.turn_detection.threshold"},
		"unknown turn detection":   {session(`"audio":{"input":{"turn_detection":{"type":"magic"}}}`), "invalid_value", "session.audio.input.turn_detection.type"},
		"both modalities":          {session(`"output_modalities":["audio","text"]`), "invalid_value", "session.output_modalities"},
		"unknown voice":            {session(`"audio":{"output":{"voice":"grandma"}}`), "invalid_value", "session.audio.output.voice"},
		"speed":                    {session(`"audio":{"output":{"speed":9}}`), "invalid_value", "session.audio.output.speed"},
		"model change":             {session(`"model":"gpt-realtime-mini"`), "invalid_value", "session.model"},
		"instructions of a number": {session(`"instructions":5`), "invalid_type", "session.instructions"},
		"nested function":          {session(`"tools":[{"type":"function","function":{"name":"x"}}]`), "unknown_parameter", "session.tools[0].function"},
		"tool without name":        {session(`"tools":[{"type":"function"}]`), "missing_required_parameter", "session.tools[0].name"},
		"tool name":                {session(`"tools":[{"type":"function","name":"a b"}]`), "invalid_value", "session.tools[0].name"},
		"model of no transcripts":  {session(transcription(`"language":"de"`)), "missing_required_parameter", "session.audio.input.transcription.model"},
		"delay":                    {session(transcription(`"model":"gpt-transcribe","delay":"low"`)), "invalid_value", "session.audio.input.transcription.delay"},
		"unknown delay":            {session(transcription(`"model":"gpt-realtime-whisper","delay":"short"`)), "invalid_value", "session.audio.input.transcription.delay"},
		"keywords":                 {session(transcription(`"model":"whisper-1","keywords":["a"]`)), "invalid_value", "session.audio.input.transcription.keywords"},
		"keywords of numbers":      {session(transcription(`"model":"gpt-transcribe","keywords":["a",1]`)), "invalid_type", "session.audio.input.transcription.keywords[1]"},
		"languages":                {session(transcription(`"model":"gpt-realtime-whisper","languages":["de"]`)), "invalid_value", "session.audio.input.transcription.languages"},
		"prompt for whisper":       {session(transcription(`"model":"gpt-realtime-whisper","prompt":"a"`)), "invalid_value", "session.audio.input.transcription.prompt"},
		"turns without type":       {session(`"audio":{"input":{"turn_detection":{"threshold":0.5}}}`), "missing_required_parameter", "session.audio.input.turn_detection.type"},
		"half a millisecond":       {session(`"audio":{"input":{"turn_detection":{"type":"server_vad","silence_duration_ms":0.5}}}`), "invalid_type", "session.audio.input.turn_detection.silence_duration_ms"},
		"rate of telephones":       {session(`"audio":{"input":{"format":{"type":"audio/pcmu","rate":8000}}}`), "unknown_parameter", "session.audio.input.format.rate"},
		"format without type":      {session(`"audio":{"output":{"format":{}}}`), "missing_required_parameter", "session.audio.output.format.type"},
		"voice without id":         {session(`"audio":{"output":{"voice":{}}}`), "missing_required_parameter", "session.audio.output.voice.id"},
		"truncation":               {session(`"truncation":"none"`), "invalid_value", "session.truncation"},
		"truncation without ratio": {session(`"truncation":{"type":"retention_ratio"}`), "missing_required_parameter", "session.truncation.retention_ratio"},
		"ratio":                    {session(`"truncation":{"type":"retention_ratio","retention_ratio":2}`), "invalid_value", "session.truncation.retention_ratio"},
		"token limits":             {session(`"truncation":{"type":"retention_ratio","retention_ratio":1,"token_limits":{"all":1}}`), "unknown_parameter", "session.truncation.token_limits.all"},
		"tracing":                  {session(`"tracing":"on"`), "invalid_value", "session.tracing"},
		"unknown tracing field":    {session(`"tracing":{"name":"x"}`), "unknown_parameter", "session.tracing.name"},
		"include":                  {session(`"include":["everything"]`), "invalid_value", "session.include[0]"},
		"prompt without id":        {session(`"prompt":{"version":"1"}`), "missing_required_parameter", "session.prompt.id"},
		"prompt of a text":         {session(`"prompt":"pmpt_1"`), "invalid_type", "session.prompt"},
		"effort":                   {session(`"reasoning":{"effort":"extreme"}`), "invalid_value", "session.reasoning.effort"},
		"choice without name":      {session(`"tool_choice":{"type":"function"}`), "missing_required_parameter", "session.tool_choice.name"},
		"choice of a server":       {session(`"tool_choice":{"type":"mcp"}`), "missing_required_parameter", "session.tool_choice.server_label"},
		"server without label":     {session(`"tools":[{"type":"mcp","server_url":"https://example.org"}]`), "missing_required_parameter", "session.tools[0].server_label"},
		"tool without type":        {session(`"tools":[{"name":"x"}]`), "missing_required_parameter", "session.tools[0].type"},
		"half a token":             {session(`"max_output_tokens":1.5`), "invalid_type", "session.max_output_tokens"},
		"max tokens":               {session(`"max_output_tokens":5000`), "invalid_value", "session.max_output_tokens"},
		"long item id":             {item(`"id":"` + long + `","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]`), "string_above_max_length", "item.id"},
		"duplicate item id":        {item(`"id":"item_a","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]`), "invalid_value", "item.id"},
		"unknown previous item":    {`{"type":"conversation.item.create","event_id":"E","previous_item_id":"nobody","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`, "item_not_found", "previous_item_id"},
		"item without type":        {item(`"role":"user"`), "missing_required_parameter", "item.type"},
		"unknown item type":        {item(`"type":"picture"`), "invalid_value", "item.type"},
		"unknown item field":       {item(`"type":"message","role":"user","content":[],"metadata":{}`), "unknown_parameter", "item.metadata"},
		"message without role":     {item(`"type":"message","content":[{"type":"input_text","text":"x"}]`), "missing_required_parameter", "item.role"},
		"developer":                {message("developer", `{"type":"input_text","text":"x"}`), "invalid_value", "item.role"},
		"message without content":  {item(`"type":"message","role":"user"`), "missing_required_parameter", "item.content"},
		"content of a text":        {item(`"type":"message","role":"user","content":"x"`), "invalid_type", "item.content"},
		"image elsewhere":          {message("user", `{"type":"input_image","image_url":"https://example.org/a.png"}`), "invalid_value", "item.content[0].image_url"},
		"image of another kind":    {message("user", `{"type":"input_image","image_url":"data:image/webp;base64,QQ=="}`), "invalid_value", "item.content[0].image_url"},
		"image not base64":         {message("user", `{"type":"input_image","image_url":"data:image/png;base64,Q"}`), "invalid_value", "item.content[0].image_url"},
		"detail of an image":       {message("user", `{"type":"input_image","image_url":"data:image/png;base64,QQ==","detail":"huge"}`), "invalid_value", "item.content[0].detail"},
		"sound not base64":         {message("user", `{"type":"input_audio","audio":"!"}`), "invalid_value", "item.content[0].audio"},
		"empty content":            {message("user", ``), "invalid_value", "item.content"},
		"beta assistant text":      {message("assistant", `{"type":"text","text":"x"}`), "invalid_value", "item.content[0].type"},
		"assistant input text":     {message("assistant", `{"type":"input_text","text":"x"}`), "invalid_value", "item.content[0].type"},
		"assistant audio":          {message("assistant", `{"type":"output_audio","audio":"QQ=="}`), "invalid_value", "item.content[0].type"},
		"user output text":         {message("user", `{"type":"input_text","text":"x"},{"type":"output_text","text":"x"}`), "invalid_value", "item.content[1].type"},
		"system audio":             {message("system", `{"type":"input_audio","audio":"QQ=="}`), "invalid_value", "item.content[0].type"},
		"text without text":        {message("user", `{"type":"input_text"}`), "missing_required_parameter", "item.content[0].text"},
		"orphan output":            {item(`"type":"function_call_output","call_id":"call_x","output":"1"`), "invalid_value", "item.call_id"},
		"second output":            {item(`"type":"function_call_output","call_id":"call_a","output":"1"`), "invalid_value", "item.call_id"},
		"second call":              {item(`"type":"function_call","call_id":"call_a","name":"f","arguments":"{}"`), "invalid_value", "item.call_id"},
		"long call id":             {item(`"type":"function_call","call_id":"` + long + `","name":"f","arguments":"{}"`), "string_above_max_length", "item.call_id"},
		"output as object":         {item(`"type":"function_call_output","call_id":"call_a","output":{}`), "invalid_type", "item.output"},
		"arguments as object":      {item(`"type":"function_call","name":"f","arguments":{}`), "invalid_type", "item.arguments"},
		"cancel of nothing":        {`{"type":"response.cancel","event_id":"E"}`, "response_cancel_not_active", ""},
		"empty commit":             {`{"type":"input_audio_buffer.commit","event_id":"E"}`, "input_audio_buffer_commit_empty", ""},
		"audio by event":           {`{"type":"input_audio_buffer.append","event_id":"E","audio":"QQ=="}`, "invalid_value", "type"},
		"retrieve of nothing":      {`{"type":"conversation.item.retrieve","event_id":"E","item_id":"x"}`, "item_retrieve_invalid_item_id", "item_id"},
		"delete of nothing":        {`{"type":"conversation.item.delete","event_id":"E","item_id":"x"}`, "item_delete_invalid_item_id", "item_id"},
		"truncate of text":         {`{"type":"conversation.item.truncate","event_id":"E","item_id":"item_a","content_index":0,"audio_end_ms":5}`, "item_truncate_invalid_item_id", "item_id"},
		"unknown event":            {`{"type":"session.explode","event_id":"E"}`, "invalid_value", "type"},
		"server event":             {`{"type":"response.done","event_id":"E"}`, "invalid_value", "type"},
		"our own event":            {`{"type":"bridge.ready","event_id":"E"}`, "invalid_value", "type"},
		"unknown event field":      {`{"type":"response.create","event_id":"E","respond":{}}`, "unknown_parameter", "respond"},
		"unknown override":         {`{"type":"response.create","event_id":"E","response":{"temperature":1}}`, "unknown_parameter", "response.temperature"},
		"retrieve without id":      {`{"type":"conversation.item.retrieve","event_id":"E"}`, "missing_required_parameter", "item_id"},
		"delete without id":        {`{"type":"conversation.item.delete","event_id":"E"}`, "missing_required_parameter", "item_id"},
		"truncate without end":     {`{"type":"conversation.item.truncate","event_id":"E","item_id":"item_a","content_index":0}`, "missing_required_parameter", "audio_end_ms"},
		"item of a text":           {`{"type":"conversation.item.create","event_id":"E","item":"x"}`, "invalid_type", "item"},
		"17 pairs":                 {answer(`"metadata":{` + pairs(17) + `}`), "invalid_value", "response.metadata"},
		"metadata of numbers":      {answer(`"metadata":{"a":1}`), "invalid_type", "response.metadata.a"},
		"long key":                 {answer(`"metadata":{"` + strings.Repeat("é", 65) + `":""}`), "string_above_max_length", "response.metadata"},
		"long value":               {answer(`"metadata":{"a":"` + strings.Repeat("é", 513) + `"}`), "string_above_max_length", "response.metadata.a"},
		"effort at once":           {answer(`"reasoning":{"effort":"extreme"}`), "invalid_value", "response.reasoning.effort"},
		"prompt at once":           {answer(`"prompt":{}`), "missing_required_parameter", "response.prompt.id"},
		"input of a text":          {answer(`"input":"x"`), "invalid_type", "response.input"},
		"input of texts":           {answer(`"input":["x"]`), "invalid_type", "response.input[0]"},
		"input without content":    {answer(`"input":[{"type":"message","role":"user"}]`), "missing_required_parameter", "response.input[0].content"},
		"input of beta text":       {answer(`"input":[{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}]}]`), "invalid_value", "response.input[0].content[0].type"},
		"orphan output in input":   {answer(`"input":[{"type":"function_call_output","call_id":"call_a","output":"1"}]`), "invalid_value", "response.input[0].call_id"},
		"reference to nothing":     {answer(`"input":[{"type":"item_reference","id":"item_a"},{"type":"item_reference","id":"x"}]`), "item_not_found", "response.input[1].id"},
		"reference without id":     {answer(`"input":[{"type":"item_reference"}]`), "missing_required_parameter", "response.input[0].id"},
		"both modalities at once":  {`{"type":"response.create","event_id":"E","response":{"output_modalities":["text","audio"]}}`, "invalid_value", "response.output_modalities"},
	} {
		id := "evt " + name
		err := c.fails(id, []byte(strings.Replace(tt.raw, `"E"`, `"`+id+`"`, 1)))
		if err.Code != tt.code || err.Param != tt.param || err.Type != "invalid_request_error" || err.Message == "" {
			t.Errorf("%s: %+v", name, err)
		}
	}
	for raw, code := range map[string]string{
		`nonsense`: "invalid_event", `[]`: "invalid_event", `{"type":`: "invalid_event", `{"event_id":"x"}`: "missing_required_parameter",
		`{"type":"response.create","event_id":"` + strings.Repeat("x", 513) + `"}`: "string_above_max_length",
	} {
		c.send([]byte(raw))
		if e := c.next(realtime.TypeError); e.Error.Code != code {
			t.Errorf("%.40q: %+v", raw, e.Error)
		}
	}
	// None of this has changed anything.
	e := c.update(`{"type":"realtime"}`)
	if strings.Contains(string(e.Session), "semantic_vad") || !strings.Contains(string(e.Session), `"silence_duration_ms":400`) {
		t.Errorf("session is %s", e.Session)
	}
}

func TestUpdateMergesAllOrNothing(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	before := c.all()[0]
	var created struct {
		ExpiresAt int64  `json:"expires_at"`
		ID        string `json:"id"`
		Object    string `json:"object"`
	}
	if err := json.Unmarshal(before.Session, &created); err != nil || created.ExpiresAt < 1 || created.Object != "realtime.session" || !strings.HasPrefix(created.ID, "sess_") {
		t.Errorf("session.created is %s (%v)", before.Session, err)
	}
	if e := c.fails("u1", realtime.SessionUpdate("u1", json.RawMessage(`{"type":"realtime","instructions":"changed","bogus":1}`))); e.Code != "unknown_parameter" {
		t.Errorf("error is %+v", e)
	}
	e := c.update(`{"type":"realtime","audio":{"input":{"turn_detection":null},"output":{"voice":"cedar"}},"tools":` + chartTools + `}`)
	got := string(e.Session)
	for _, want := range []string{`"turn_detection":null`, `"voice":"cedar"`, `"model":"gpt-transcribe"`, `"create_pie_chart"`, created.ID} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "changed") || e.EventID == "u1" {
		t.Errorf("session is %s, event id %s", got, e.EventID)
	}
	if e := c.update(`{"type":"realtime","tools":[]}`); !strings.Contains(string(e.Session), `"tools":[]`) {
		t.Errorf("tools are not cleared: %s", e.Session)
	}
	c.say("hello")
	c.next(realtime.TypeResponseDone)
	if e := c.fails("u2", realtime.SessionUpdate("u2", json.RawMessage(`{"type":"realtime","audio":{"output":{"voice":"ash"}}}`))); e.Code != "cannot_update_voice" {
		t.Errorf("error is %+v", e)
	}
	c.update(`{"type":"realtime","audio":{"output":{"voice":"cedar"}}}`) // the same voice is not a change
}

// TestAcceptsWhatTheAPIAccepts sends each optional field in a form that the API takes.
func TestAcceptsWhatTheAPIAccepts(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	for _, fields := range []string{
		`"audio":{"input":{"transcription":{"model":"gpt-transcribe","language":"de","prompt":"x","keywords":["a"],"languages":["de","en"]}}}`,
		`"audio":{"input":{"transcription":{"model":"gpt-realtime-whisper","delay":"xhigh"}}}`,
		`"audio":{"input":{"transcription":null,"noise_reduction":null,"format":{"type":"audio/pcmu"}}}`,
		`"audio":{"output":{"voice":{"id":"voice_1"},"speed":1.5,"format":{"type":"audio/pcm","rate":24000}}}`,
		`"truncation":"disabled"`, `"truncation":{"type":"retention_ratio","retention_ratio":0.8,"token_limits":{"post_instructions":8000}}`,
		`"include":["item.input_audio_transcription.logprobs"]`, `"include":null`,
		`"prompt":{"id":"pmpt_1","version":"2","variables":{"a":"b"}}`, `"prompt":null`,
		`"reasoning":{"effort":"low"},"parallel_tool_calls":false`, `"max_output_tokens":4096`, `"max_output_tokens":"inf"`,
		`"tool_choice":{"type":"function","name":"f"}`, `"tool_choice":{"type":"mcp","server_label":"s"}`, `"tool_choice":"auto"`,
		`"tools":[{"type":"mcp","server_label":"s","server_url":"https://example.org","allowed_tools":["a"]}]`,
		`"tracing":{"workflow_name":"w","group_id":"g","metadata":{"a":1}}`, `"tracing":{"group_id":"g","workflow_name":"w","metadata":{"a":1}}`,
	} {
		c.update(`{"type":"realtime",` + fields + `}`)
	}
	if e := c.fails("t", realtime.SessionUpdate("t", json.RawMessage(`{"type":"realtime","tracing":"auto"}`))); e.Code != "invalid_value" || e.Param != "session.tracing" {
		t.Errorf("tracing changed: %+v", e)
	}
	c.update(`{"type":"realtime","tracing":null}`)
	c.update(`{"type":"realtime","tracing":"auto"}`)
}

// TestModelsWithoutReasoning refuses what only reasoning models take.
func TestModelsWithoutReasoning(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(`{"type":"realtime","model":"gpt-realtime-2025-08-28"}`)
	for _, field := range []string{`"reasoning":{"effort":"low"}`, `"parallel_tool_calls":true`} {
		name, _, _ := strings.Cut(strings.Trim(field, `"`), `"`)
		if e := c.fails("s", []byte(`{"type":"session.update","event_id":"s","session":{"type":"realtime",`+field+`}}`)); e.Code != "invalid_value" || e.Param != "session."+name {
			t.Errorf("%s: %+v", field, e)
		}
		if e := c.fails("r", []byte(`{"type":"response.create","event_id":"r","response":{`+field+`}}`)); e.Code != "invalid_value" || e.Param != "response."+name {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

// TestResponseOfItsOwn overrides the session for one response, which sees other items than those of the conversation.
func TestResponseOfItsOwn(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.send(realtime.ItemCreate("", realtime.Item{
		ID: "old", Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: "Hello."}},
	}, ""))
	c.next(realtime.TypeItemDone)
	for input, want := range map[string]string{
		`{"type":"message","id":"old","role":"user","content":[{"type":"input_text","text":"a long story"}]}`: "Let me tell you how a call travels.",
		`{"type":"item_reference","id":"old"}`: "Good to see you again.",
		``:                                     "I have read your message.",
	} {
		c.send([]byte(`{"type":"response.create","response":{"conversation":"none","output_modalities":["text"],"max_output_tokens":999,"audio":{"output":{"voice":"ash"}},"input":[` + input + `]}}`))
		e := c.next(realtime.TypeResponseDone)
		if r := response(t, e); len(r.Output) != 1 || !strings.HasPrefix(r.Output[0].Text(), want) || r.ConversationID != nil || r.Usage.OutputTokens < 10 {
			t.Errorf("%s: response is %+v", input, r)
		}
		for _, want := range []string{`"max_output_tokens":999`, `"voice":"ash"`, `"rate":24000`} {
			if !strings.Contains(string(e.Response), want) {
				t.Errorf("%s is not in %s", want, e.Response)
			}
		}
	}
}

// TestAnswerLimit ends an answer after its tokens.
func TestAnswerLimit(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.update(`{"type":"realtime","max_output_tokens":10}`)
	c.say("tell me a long story")
	r := response(t, c.next(realtime.TypeResponseDone))
	if r.Status != realtime.ResponseIncomplete || r.StatusDetails.Reason != "max_output_tokens" || r.Output[0].Status != "incomplete" ||
		r.Output[0].Text() != "Let me tell you how a call travels. Your" {
		t.Errorf("response is %+v", r)
	}
}

// TestLockedByAnswers changes in the middle of an answer what cannot change then, and its voice afterwards.
func TestLockedByAnswers(t *testing.T) {
	b := newBench(t, simulator.Config{Pace: slow})
	c := b.dial(sessionAudio)
	c.say("tell me a long story")
	c.next(realtime.TypeOutputBufferStarted)
	faster := realtime.SessionUpdate("f", json.RawMessage(`{"type":"realtime","audio":{"output":{"speed":1.5}}}`))
	if e := c.fails("f", faster); e.Code != "invalid_value" || e.Param != "session.audio.output.speed" {
		t.Errorf("error is %+v", e)
	}
	c.send(realtime.ResponseCancel("", ""))
	c.next(realtime.TypeResponseDone)
	c.send(faster)
	c.next(realtime.TypeSessionUpdated)
	if e := c.fails("v", []byte(`{"type":"response.create","event_id":"v","response":{"audio":{"output":{"voice":"ash"}}}}`)); e.Code != "cannot_update_voice" || e.Param != "response.audio.output.voice" {
		t.Errorf("error is %+v", e)
	}
}

func TestOneResponseAtATime(t *testing.T) {
	b := newBench(t, simulator.Config{Pace: slow})
	c := b.dial(sessionAudio)
	c.say("tell me a long story")
	c.next(realtime.TypeResponseCreated)
	if e := c.fails("second", realtime.ResponseCreate("second")); e.Code != "conversation_already_has_active_response" {
		t.Errorf("error is %+v", e)
	}
	c.next(realtime.TypeAudioTranscriptDelta)
	if e := c.fails("other", realtime.ResponseCancel("other", "resp_unknown")); e.Code != "response_cancel_not_active" {
		t.Errorf("error is %+v", e)
	}
	c.send(realtime.ResponseCancel("stop", ""))
	if r := response(t, c.next(realtime.TypeResponseDone)); r.Status != "cancelled" || r.StatusDetails.Reason != "client_cancelled" || r.Output[0].Status != "incomplete" {
		t.Errorf("response is %+v", r)
	}
	c.send(realtime.OutputAudioBufferClear("clear"))
	c.next(realtime.TypeOutputBufferCleared)
	c.next(realtime.TypeItemTruncated)
	c.say("hello")
	if r := response(t, c.next(realtime.TypeResponseDone)); r.Status != "completed" {
		t.Errorf("response is %+v", r)
	}
}

// TestResponseBesideTheConversation makes a response outside the conversation while one in it is generated, and another
// the other way round.
func TestResponseBesideTheConversation(t *testing.T) {
	b := newBench(t, simulator.Config{Pace: slow})
	c := b.dial(sessionAudio)
	aside := []byte(`{"type":"response.create","response":{"conversation":"none","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a long story"}]}]}}`)
	c.say("tell me a long story")
	first := response(t, c.next(realtime.TypeResponseCreated))
	for _, active := range []string{first.ID, ""} {
		c.send(aside)
		other := response(t, c.next(realtime.TypeResponseCreated))
		if active == "" {
			c.say("tell me a long story")
			active = response(t, c.next(realtime.TypeResponseCreated)).ID
		}
		if e := c.fails("more", realtime.ResponseCreate("more")); e.Code != "conversation_already_has_active_response" || !strings.Contains(e.Message, active) {
			t.Errorf("error is %+v", e)
		}
		for id, want := range map[string]string{"": active, other.ID: other.ID} {
			c.send(realtime.ResponseCancel("", id))
			if r := response(t, c.next(realtime.TypeResponseDone)); r.ID != want || r.Status != realtime.ResponseCancelled {
				t.Errorf("cancelling %q ended %+v, want %s", id, r, want)
			}
		}
	}
}

// TestLogprobs asks for the probabilities of transcripts.
func TestLogprobs(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	for _, include := range []string{`null`, `["item.input_audio_transcription.logprobs"]`} {
		c.update(`{"type":"realtime","include":` + include + `,"audio":{"input":{"turn_detection":{"type":"server_vad","create_response":false}}}}`)
		c.ses.SimulateSpeech()
		for _, kind := range []string{realtime.TypeTranscriptionDelta, realtime.TypeTranscriptionCompleted} {
			if raw := string(c.next(kind).Raw); strings.Contains(raw, `"logprobs":[{"bytes":[`) == (include == "null") {
				t.Errorf("include %s: %s", include, raw)
			}
		}
	}
}

func TestItemOrder(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	add := func(id, previous string, want any) {
		t.Helper()
		c.send(realtime.ItemCreate(c.id(), realtime.Item{
			ID: id, Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: id}},
		}, previous))
		for _, kind := range []string{realtime.TypeItemAdded, realtime.TypeItemDone} {
			e := c.next(kind)
			if s, ok := want.(string); e.PreviousItemID != s || !e.HasPrevious || item(t, e).ID != id {
				t.Errorf("%s of %s: previous %q, want %v (%v)", kind, id, e.PreviousItemID, want, ok)
			}
		}
	}
	add("b", "", nil)
	add("d", "", "b")
	add("c", "b", "b")
	add("a", "root", nil)
	add("e", "d", "d")
	c.send([]byte(`{"type":"conversation.item.delete","item_id":"d"}`))
	c.next(realtime.TypeItemDeleted)
	add("f", "", "e")
	add("d", "c", "c")
}
