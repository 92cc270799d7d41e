package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
)

type sessionReply struct {
	Success *bool
	Result  *chat.SessionResult
	Session *chat.Session
}

// session makes a text session and returns its path.
func (b *bundle) textSession(t *testing.T, body string) string {
	t.Helper()
	r := b.do(t, "POST", "/text/session", body)
	wantStatus(t, r, 201)
	got := decode[sessionReply](t, r)
	if got.Success == nil || !*got.Success || got.Session == nil || got.Session.ID == "" || r.Header.Get("Location") != "/text/session/"+got.Session.ID {
		t.Fatalf("made %s, headers %v", r.body, r.Header)
	}
	return "/text/session/" + got.Session.ID
}

// lines returns a session's messages in the form that tests compare.
func lines(s *chat.Session) []string {
	var out []string
	for _, m := range s.Messages {
		var line strings.Builder
		line.WriteString(string(m.Role) + ": " + m.Content)
		if m.ToolCallID != "" {
			line.WriteString(" (" + m.ToolCallID + ")")
		}
		for _, c := range m.ToolCalls {
			line.WriteString(fmt.Sprintf(" [%s %s %s]", c.ID, c.Name, c.Arguments))
		}
		out = append(out, line.String())
	}
	return out
}

func wantLines(t *testing.T, s *chat.Session, want ...string) {
	t.Helper()
	if s == nil {
		t.Fatal("there is no session")
	}
	if got := lines(s); !slices.Equal(got, want) {
		t.Errorf("messages\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const weatherTool = `{"name":"weather","description":"the weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}`

func TestTextSession(t *testing.T) {
	t.Parallel()
	cfg, provider := scriptedChat(words("Ready."), toolCalls("One moment.", "c1", "weather", `{"city":"Rome"}`, "c2", "weather", `{"city":"Oslo"}`), words("Warm and cold."))
	b := setupChat(t, cfg, nil)
	path := b.textSession(t, `{"instructions":["Be brief.","Be kind."],"tools":[`+weatherTool+`,{"name":"bare"}],"defaults":{"max_tokens":99,"top_p":0.5}}`)
	made := decode[sessionReply](t, b.do(t, "GET", path, ""))
	wantLines(t, made.Session, "system: Be brief.", "system: Be kind.")
	if s := made.Session; len(s.Tools) != 2 || s.Tools[0].Name != "weather" || string(s.Defaults) != `{"max_tokens":99,"top_p":0.5}` || s.Provider != "script" {
		t.Errorf("session %+v", s)
	}

	r := b.do(t, "POST", path+"/instructions", `{"instructions":"Say when you are ready."}`)
	wantStatus(t, r, 200)
	if got := decode[sessionReply](t, r); got.Result.Text != "Ready." || len(got.Result.ToolCalls) != 0 {
		t.Errorf("answer %s", r.body)
	}
	r = b.do(t, "POST", path+"/message", `{"content":"How is the weather?","instructions":["In two words."]}`)
	wantStatus(t, r, 200)
	got := decode[sessionReply](t, r)
	if got.Result == nil || got.Result.Text != "One moment." || len(got.Result.ToolCalls) != 2 ||
		got.Result.ToolCalls[0] != (chat.SessionCall{ID: "c1", Name: "weather", Arguments: `{"city":"Rome"}`}) {
		t.Fatalf("answer %s", r.body)
	}
	for _, key := range []string{`"success":true`, `"toolCalls":[`, `"usage":{"inputTokens"`, `"tool_calls":[{"id":"c1","name":"weather","arguments":"{`} {
		if !strings.Contains(r.body, key) {
			t.Errorf("%s is missing in %s", key, r.body)
		}
	}
	outputs := path + "/tool-output"
	r = b.do(t, "POST", outputs, `{"toolOutputs":[{"callId":"c2","output":"rain, \"cold\""}]}`)
	wantStatus(t, r, 200)
	if strings.Contains(r.body, `"result"`) {
		t.Errorf("tool-output has a result: %s", r.body)
	}
	// All or nothing: c1 comes with an unknown call, and with an answered one.
	r = b.do(t, "POST", outputs, `{"toolOutputs":[{"callId":"c1","output":1},{"callId":"c9","output":1}]}`)
	wantError(t, r, 400, "unknown_call")
	if !strings.Contains(r.body, "c9") || !strings.Contains(r.body, `"success":false`) {
		t.Errorf("the error does not name the call: %s", r.body)
	}
	wantError(t, b.do(t, "POST", outputs, `{"toolOutputs":[{"callId":"c1","output":1},{"callId":"c2","output":1}]}`), 409, "already_answered")
	wantStatus(t, b.do(t, "POST", outputs, `{"toolOutputs":[{"callId":"c1","output":{"sky":"blue","degrees":30}}]}`), 200)
	wantError(t, b.do(t, "POST", outputs, `{"toolOutputs":[{"callId":"c1","output":1}]}`), 409, "already_answered")

	r = b.do(t, "POST", path+"/message", `{"content":"And now?"}`)
	wantStatus(t, r, 200)
	want := []string{
		"system: Be brief.", "system: Be kind.", "system: Say when you are ready.", "assistant: Ready.", "system: In two words.", "user: How is the weather?",
		`assistant: One moment. [c1 weather {"city":"Rome"}] [c2 weather {"city":"Oslo"}]`, `tool: {"sky":"blue","degrees":30} (c1)`, `tool: rain, "cold" (c2)`,
		"user: And now?", "assistant: Warm and cold.",
	}
	wantLines(t, decode[sessionReply](t, r).Session, want...)
	wantLines(t, decode[sessionReply](t, b.do(t, "GET", path, "")).Session, want...)
	testkit.Equal(t, provider.received(), "weather c1: {\"sky\":\"blue\",\"degrees\":30}\nweather c2: rain, \"cold\"", "the model heard")
	// The same thread through the other API.
	wantStatus(t, b.do(t, "GET", strings.Replace(path, "/text/session/", "/api/threads/", 1)+"/messages", ""), 200)
}
