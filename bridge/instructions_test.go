package bridge_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// TestUserInInstructions checks what the model learns about the user, and which voice is
// saved.
func TestUserInInstructions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testUserInInstructions)
}

func testUserInInstructions(t *testing.T) {
	t.Helper()
	url := persistencetest.SQLiteURL(t)
	store := persistencetest.Open(t, url, persistence.Options{})
	b := newBench(t, store, benchConfig{bridge: bridge.Config{Settings: bridge.Settings{Session: bridge.SessionConfig{
		Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Instructions: "Today is {{date}}. You talk to {{user}}.",
	}}}})
	c := b.dial(bridge.Start{Owner: owner, User: "Anna", Session: []byte(`{"type":"realtime","audio":{"output":{"voice":"ash"}}}`)})
	c.next("bridge.ready")
	update, err := b.session(1).WaitFor(b.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdate })
	must(t, err)
	if text := string(update.Raw); !strings.Contains(text, "You talk to Anna.") || !strings.Contains(text, time.Now().Format("2006")) || strings.Contains(text, "{{") {
		t.Errorf("the model is told %s", text)
	}
	c.say("Hello")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	for _, m := range b.messages(c.key()) {
		if m.Role == thread.RoleAssistant && m.Metadata.Voice != "ash" {
			t.Errorf("the answer was spoken by %q", m.Metadata.Voice)
		}
	}
	if rows := persistencetest.Rows(t, url, "SELECT voice FROM call_summary"); len(rows) != 1 || rows[0][0] != "ash" {
		t.Errorf("the call had the voices %q", rows)
	}
}

// TestScreenedCall has the model know what to say to an assistant that screens a call out: the name of the line.
func TestScreenedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sqlite(t), benchConfig{})
		for i, id := range []string{persistence.NewID(), ""} {
			c := b.dial(bridge.Start{Phone: &bridge.Phone{Line: "front-desk", Caller: "+493012345678", Called: "+493011111111", CallID: id}})
			c.next("bridge.ready")
			update, err := b.session(i+1).WaitFor(b.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdate })
			must(t, err)
			if says := strings.Contains(string(update.Raw), "say that it is front-desk"); says != (id != "") {
				t.Errorf("call %q: the model is told %.2000s", id, update.Raw)
			}
			b.hangUp(c)
		}
	})
}
