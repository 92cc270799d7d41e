package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// wantRefusal checks a response that refuses a call in OpenAI's form.
func wantRefusal(t *testing.T, status int, body string, wantStatus int, wantCode string) {
	t.Helper()
	var e struct {
		Error struct{ Type, Code, Message string }
	}
	err := json.Unmarshal([]byte(body), &e)
	if err != nil || status != wantStatus || e.Error.Code != wantCode || e.Error.Type == "" || e.Error.Message == "" {
		t.Errorf("%d %s, want %d %s", status, body, wantStatus, wantCode)
	}
}

const spokenTurn = "user voice completed: " + spokenWords

var answered = []string{"user text completed: Hello.", "assistant voice completed: Well."}

// hello types, and waits until the answer has been played to its end.
func hello(c *caller) {
	c.say("Hello.")
	c.next(realtime.TypeOutputBufferStopped)
	c.saved("answer", says(thread.RoleAssistant, "Well."))
}

// inAnswer brings the call into the middle of an answer.
func inAnswer(c *caller) {
	c.say(countPlease)
	c.wait("20th piece of an answer", func(ev timedEvent) bool {
		return ev.Type == realtime.TypeAudioTranscriptDelta && strings.Contains(ev.Delta, "n60")
	})
}

// wantWords checks that the thread has every word of the answers that the caller has seen.
func (r *rig) wantWords(c *caller) {
	c.t.Helper()
	seen := map[string]string{}
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeAudioTranscriptDelta {
			seen[ev.ItemID] += ev.Delta
		}
	}
	for _, m := range r.messages(c.t, c.thread) {
		if words := seen[m.Metadata.ItemID]; !strings.HasPrefix(m.Text(), words) {
			c.t.Errorf("%d bytes of an answer are saved, %d were seen", len(m.Text()), len(words))
		}
		delete(seen, m.Metadata.ItemID)
	}
	if len(seen) > 0 {
		c.t.Errorf("%d answers were seen but are not saved", len(seen))
	}
}

// waiting makes calls wait for their browser longer than any test takes.
var waiting = []string{"VOICEBRIDGE_CALLS__GRACE_SECONDS=600", "VOICEBRIDGE_CALLS__CLOSE_GRACE_SECONDS=600"}

// rejoin connects another browser to a call.
func (r *rig) rejoin(t *testing.T, old *caller) *caller {
	t.Helper()
	c := newCaller(t, r)
	c.id, c.thread, c.session, c.keeps = old.id, old.thread, old.session, old.keeps
	offer := c.offer()
	status, answer := insist(t, func() (int, string) { return r.post(t, reconnectPath(old)+"?dcid="+r.dcid, "application/sdp", offer) })
	if status != http.StatusOK {
		t.Fatalf("reconnect: %d %s", status, answer)
	}
	c.accept(answer)
	return c
}

func reconnectPath(c *caller) string { return "/v1/realtime/calls/" + c.id + "/reconnect" }

// welcomed checks that a browser that joins a call gets what the one before knows.
func (c *caller) welcomed() {
	c.t.Helper()
	c.next("bridge.ready")
	var got []string
	for _, ev := range c.all()[:c.seen] {
		got = append(got, ev.Type)
	}
	testkit.Equal(c.t, got, []string{realtime.TypeSessionCreated, realtime.TypeSessionUpdated, "bridge.ready"}, "the first events")
}

// tool waits for the call of ask_me and returns its id.
func (c *caller) tool() string {
	c.t.Helper()
	ev := c.next("bridge.tool.started")
	var e struct {
		ID   string `json:"tool_call_id"`
		Name string
	}
	if err := json.Unmarshal(ev.Raw, &e); err != nil || e.ID == "" || e.Name != "ask_me" {
		c.t.Fatalf("%s: %v", ev.Raw, err)
	}
	return e.ID
}

// deliver is the page's output for a call of its tool.
func (c *caller) deliver(toolCallID, output string) {
	c.t.Helper()
	c.put(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":%q,"output":%q}}`, toolCallID, output)
}

// away makes the browser leave in the middle of an answer and returns when the call waits
// for it: by then the model has been told to stop.
func (c *caller) away() {
	c.t.Helper()
	inAnswer(c)
	c.leave()
	ctx := c.t.Context()
	for _, kind := range []string{realtime.TypeResponseCancel, realtime.TypeOutputBufferClear} {
		if _, err := c.session.WaitFor(ctx, func(ev realtime.Event) bool { return ev.Type == kind }); err != nil {
			c.t.Fatalf("the model was not told %s: %v", kind, err)
		}
	}
}
