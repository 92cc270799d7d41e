package ws

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
)

func profile(t *testing.T, name string) Profile {
	t.Helper()
	p, ok := Find(name)
	if !ok {
		t.Fatalf("there is no profile %q", name)
	}
	return p
}

func decode(t *testing.T, raw string) realtime.Event {
	t.Helper()
	ev, err := realtime.Decode([]byte(raw))
	testkit.Must(t, err)
	return ev
}

// sameJSON compares two texts as JSON.
func sameJSON(t *testing.T, what, want string, got []byte) {
	t.Helper()
	var a, b any
	testkit.Must(t, json.Unmarshal([]byte(want), &a))
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("%s: %v in %s", what, err, got)
	}
	testkit.Equal(t, b, a, "%s", what)
}

const update = `{"type":"session.update","event_id":"vb_1","session":{"type":"realtime","instructions":"Be kind.","output_modalities":["audio"],` +
	`"audio":{"input":{"transcription":{"model":"m"},"turn_detection":{"type":"server_vad"}},"output":{"voice":"v"}},"max_output_tokens":100,"tool_choice":"auto",` +
	`"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}}`

// TestSessions writes a session as each profile wants it, and reads it again.
func TestSessions(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"openai": `{"type":"session.update","event_id":"vb_1","session":{"type":"realtime","instructions":"Be kind.","output_modalities":["audio"],
			"audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"m"},"turn_detection":{"type":"server_vad"}},
				"output":{"format":{"type":"audio/pcm","rate":24000},"voice":"v"}},
			"max_output_tokens":100,"tool_choice":"auto","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}}`,
		"xai": `{"type":"session.update","event_id":"vb_1","session":{"type":"realtime","instructions":"Be kind.","output_modalities":["audio"],
			"voice":"v","turn_detection":{"type":"server_vad"},
			"audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"m"}},"output":{"format":{"type":"audio/pcm","rate":24000}}},
			"max_output_tokens":100,"tool_choice":"auto","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}}`,
		// The proof that a profile is one entry of data and one test.
		"qwen": `{"type":"session.update","event_id":"vb_1","session":{"instructions":"Be kind.","modalities":["text","audio"],
			"voice":"v","turn_detection":{"type":"server_vad"},"input_audio_format":"pcm","output_audio_format":"pcm","input_audio_transcription":{"model":"m"},
			"max_response_output_tokens":100,"tool_choice":"auto","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}}`,
		"inworld": strings.Replace(update[:len(update)-2], `"audio":{"input":{`, `"model":"gpt-x","audio":{"input":{"format":{"type":"audio/pcm","rate":24000},`, 1) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := profile(t, name)
			sent := p.sent(decode(t, update), true, "", "gpt-x")
			if name == "inworld" {
				want = strings.Replace(want, `"output":{`, `"output":{"format":{"type":"audio/pcm","rate":24000},`, 1)
			}
			sameJSON(t, "sent", want, sent)
			echo := strings.Replace(string(sent), "session.update", "session.updated", 1)
			back := p.received(decode(t, echo))
			if len(back) != 1 {
				t.Fatalf("%d events", len(back))
			}
			session := back[0].Session
			for path, want := range map[string]string{
				"audio.input.turn_detection": `{"type":"server_vad"}`, "audio.output.voice": `"v"`, "audio.input.transcription": `{"model":"m"}`,
				"output_modalities": `["audio"]`, "max_output_tokens": "100", "type": `"realtime"`,
			} {
				sameJSON(t, "read: "+path, want, realtime.Member(session, strings.Split(path, ".")...))
			}
			sameJSON(t, "read: tools", `[{"type":"function","name":"f","parameters":{"type":"object"}}]`, realtime.Member(session, "tools"))
			spoken := p.sent(decode(t, `{"type":"session.update","session":{"type":"realtime","audio":{"input":{"transcription":{"model":"m","language":"de"}}}}}`), false, "", "m")
			if hint := strings.Contains(string(spoken), `"language_hint":"de"`); hint != (name == "xai") || hint == strings.Contains(string(spoken), `"language":"de"`) {
				t.Errorf("the language: %s", spoken)
			}
			heard := p.received(decode(t, strings.Replace(string(spoken), "session.update", "session.updated", 1)))
			sameJSON(t, "read: language", `"de"`, realtime.Member(heard[0].Session, "audio", "input", "transcription", "language"))
			// Only the first update has the formats.
			if again := p.sent(decode(t, `{"type":"session.update","session":{"type":"realtime","instructions":"x"}}`), false, " More.", "m"); strings.Contains(string(again), "format") ||
				!strings.Contains(string(again), `"x More."`) {
				t.Errorf("a later update: %s", again)
			}
		})
	}
}

// TestKeyterms tells each profile's transcription of words, as far as it takes any.
func TestKeyterms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 51)
	for _, c := range []struct{ profile, hints, path, want string }{
		{"openai", `"keywords":["Aoife"],"prompt":"p"`, "audio.input.transcription", `{"model":"m","keywords":["Aoife"],"prompt":"p"}`},
		{"xai", `"keywords":["Aoife","` + long + `","` + long[2:] + `"],"prompt":"p"`, "audio.input.transcription", `{"model":"m","keyterms":["Aoife","` + long[2:] + `"]}`},
		{"xai", `"keywords":["` + long + `"]`, "audio.input.transcription", `{"model":"m"}`},
		{"qwen", `"keywords":["Aoife"],"prompt":"p"`, "input_audio_transcription", `{"model":"m"}`},
		{"beta", `"keywords":["Aoife",7,"Xarelto"]`, "input_audio_transcription", `{"model":"m","prompt":"Aoife, , Xarelto"}`},
		{"beta", `"keywords":["Aoife"],"prompt":"p"`, "input_audio_transcription", `{"model":"m","prompt":"p"}`},
		{"beta", `"keywords":"Aoife"`, "input_audio_transcription", `{"model":"m"}`},
	} {
		p := Profile{Shape: ShapeBeta}
		if c.profile != "beta" {
			p = profile(t, c.profile)
		}
		sent := p.sent(decode(t, `{"type":"session.update","session":{"type":"realtime","audio":{"input":{"transcription":{"model":"m",`+c.hints+`}}}}}`), false, "", "m")
		sameJSON(t, c.profile+" of "+c.hints, c.want, realtime.Member(decode(t, string(sent)).Session, strings.Split(c.path, ".")...))
	}
}

// TestGAPassesUnchanged leaves the bytes of all other events as they are.
func TestGAPassesUnchanged(t *testing.T) {
	t.Parallel()
	p := profile(t, "openai")
	for _, raw := range []string{
		`{"type":"response.create", "response": {"output_modalities":["text"]}}`, `{"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"<&>"}]}}`,
		`{ "type":"response.done","response":{"id":"r"}}`, `{"type":"session.created","session":{"id":"s"}}`, `{"type":"unknown","x":1.0}`,
	} {
		if got := p.sent(decode(t, raw), true, "", ""); string(got) != raw {
			t.Errorf("sent %s as %s", raw, got)
		}
		if got := p.received(decode(t, raw)); len(got) != 1 || string(got[0].Raw) != raw {
			t.Errorf("received %s as %v", raw, got)
		}
	}
}

// TestBeta reads the events of before general availability, whatever the profile, and writes them.
func TestBeta(t *testing.T) {
	t.Parallel()
	type event struct{ Type, Raw string }
	for name, tt := range map[string]struct {
		profile, raw string
		want         []event
	}{
		"words":          {"openai", `{"type":"response.audio_transcript.delta","delta":"a"}`, []event{{"response.output_audio_transcript.delta", `{"type":"response.output_audio_transcript.delta","delta":"a"}`}}},
		"text":           {"speech-to-speech", `{"type":"response.text.done","text":"a"}`, []event{{"response.output_text.done", `{"type":"response.output_text.done","text":"a"}`}}},
		"sound":          {"qwen", `{"type":"response.audio.delta","delta":"AAAA"}`, []event{{"response.output_audio.delta", `{"type":"response.output_audio.delta","delta":"AAAA"}`}}},
		"item":           {"qwen", `{"type":"conversation.item.created","previous_item_id":"i0","item":{"id":"i1","status":"completed","role":"user","content":[{"type":"input_text","text":"a"}]}}`, []event{{"conversation.item.added", `{"type":"conversation.item.added","previous_item_id":"i0","item":{"id":"i1","status":"completed","role":"user","content":[{"type":"input_text","text":"a"}]}}`}, {"conversation.item.done", `{"type":"conversation.item.done","previous_item_id":"i0","item":{"id":"i1","status":"completed","role":"user","content":[{"type":"input_text","text":"a"}]}}`}}},
		"item to come":   {"qwen", `{"type":"conversation.item.created","item":{"id":"i1","status":"in_progress","role":"assistant","content":[]}}`, []event{{"conversation.item.added", `{"type":"conversation.item.added","item":{"id":"i1","status":"in_progress","role":"assistant","content":[]}}`}}},
		"response":       {"qwen", `{"type":"response.done","response":{"id":"r","modalities":["text","audio"],"output":[{"id":"i1","role":"assistant","content":[{"type":"audio","transcript":"a"}]}]}}`, []event{{"response.done", `{"type":"response.done","response":{"id":"r","output_modalities":["audio"],"output":[{"id":"i1","role":"assistant","content":[{"type":"output_audio","transcript":"a"}]}]}}`}}},
		"session's time": {"xai", `{"type":"session.created","session":{"id":"s","voice":"Ara","turn_detection":null}}`, []event{{"session.created", `{"type":"session.created","session":{"id":"s","audio":{"output":{"voice":"Ara"},"input":{"turn_detection":null}}}}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := profile(t, tt.profile)
			p.MaxSession = 0
			got := p.received(decode(t, tt.raw))
			if len(got) != len(tt.want) {
				t.Fatalf("%d events, want %d", len(got), len(tt.want))
			}
			for i, want := range tt.want {
				testkit.Equal(t, got[i].Type, want.Type, "type")
				sameJSON(t, "event", want.Raw, got[i].Raw)
			}
		})
	}
	p := profile(t, "qwen")
	sameJSON(t, "response.create", `{"type":"response.create","response":{"modalities":["text"],"max_response_output_tokens":5}}`,
		p.sent(decode(t, `{"type":"response.create","response":{"output_modalities":["text"],"max_output_tokens":5}}`), false, "", ""))
	sameJSON(t, "item", `{"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}]}}`,
		p.sent(decode(t, `{"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`), false, "", ""))
}

// TestSessionLimit says when a session ends in place of an upstream that does not.
func TestSessionLimit(t *testing.T) {
	t.Parallel()
	p := profile(t, "xai")
	got := p.received(decode(t, `{"type":"session.created","session":{"id":"s"}}`))
	if at := string(realtime.Member(got[0].Session, "expires_at")); len(at) != 10 {
		t.Errorf("it expires at %q", at)
	}
	own := p.received(decode(t, `{"type":"session.created","session":{"id":"s","expires_at":7}}`))
	testkit.Equal(t, string(realtime.Member(own[0].Session, "expires_at")), "7", "it expires")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ profile, base, want string }{
		{"openai", "", "wss://api.openai.com/v1/realtime?model=gpt%2Fx"},
		{"azure", "https://r.openai.azure.com/openai/v1/realtime", "wss://r.openai.azure.com/openai/v1/realtime?model=gpt%2Fx"},
		{"azure", "wss://r.openai.azure.com/openai/v1/realtime?model=mine", "wss://r.openai.azure.com/openai/v1/realtime?model=mine"},
		{"inworld", "", "wss://api.inworld.ai/api/v1/realtime/session?key=s1&protocol=realtime"},
		{"realtime", "ws://127.0.0.1:1/{model}/live?a=b", "ws://127.0.0.1:1/gpt%2Fx/live?a=b"},
		{"realtime", "", ""}, {"realtime", "ftp://x", ""}, {"realtime", "://", ""},
	} {
		p := profile(t, tt.profile)
		got, err := p.address(tt.base, "gpt/x", "s1")
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s at %q: %q, %v", tt.profile, tt.base, got, err)
		}
	}
}

// TestProfiles checks what all profiles have in common.
func TestProfiles(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range Profiles {
		if slices.Contains(names, p.Name) {
			t.Errorf("two profiles are called %s", p.Name)
		}
		names = append(names, p.Name)
		p = profile(t, p.Name)
		if p.RateIn == 0 || p.RateOut == 0 || p.KeyHeader == "" || p.History == "" || p.MaxEvent == 0 {
			t.Errorf("%s lacks something: %+v", p.Name, p)
		}
	}
	if p := profile(t, "azure"); p.KeyHeader != "api-key" || p.KeyPrefix != "" {
		t.Errorf("azure's key is sent as %s: %s…", p.KeyHeader, p.KeyPrefix)
	}
	if p := profile(t, "inworld"); p.KeyHeader != "Authorization" || p.KeyPrefix != "Basic " {
		t.Errorf("inworld's key is sent as %s: %s…", p.KeyHeader, p.KeyPrefix)
	}
	litellm := profile(t, "litellm")
	for model, want := range map[string]History{
		"gpt-realtime": HistoryItems, "gemini-3.8-flash-live": HistoryInstructions, "vertex_ai/Gemini-live": HistoryInstructions, "": HistoryItems,
	} {
		testkit.Equal(t, litellm.of(model).History, want, "litellm tells %s the history", model)
	}
	if litellm.History = HistoryPacked; litellm.of("gemini-live").History != HistoryPacked {
		t.Error("what the operator has chosen does not count")
	}
	if _, ok := Find("nobody"); ok {
		t.Error("a profile that is not there was found")
	}
}
