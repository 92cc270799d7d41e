package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/thread"
)

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
	if diff := cmp.Diff([]string{realtime.TypeSessionCreated, realtime.TypeSessionUpdated, "bridge.ready"}, got); diff != "" {
		c.t.Errorf("the first events (-want +got):\n%s", diff)
	}
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

// received counts the events of a kind that the upstream got.
func received(c *caller, kind string) int {
	n := 0
	for _, record := range c.session.Received() {
		if record.Event.Type == kind {
			n++
		}
	}
	return n
}

// undisturbed checks that the model did not notice anything: one session, in which nothing
// was stopped.
func (r *rig) undisturbed(c *caller) {
	c.t.Helper()
	for _, kind := range []string{realtime.TypeResponseCancel, realtime.TypeItemTruncate, realtime.TypeOutputBufferClear} {
		if n := received(c, kind); n > 0 {
			c.t.Errorf("the model got %d times %s", n, kind)
		}
	}
	legs := r.rows(c.t, fmt.Sprintf("SELECT upstream_id FROM upstream_legs WHERE call_id = '%s'", c.id))
	if !slices.Equal(legs, []string{c.session.ID()}) {
		c.t.Errorf("the upstream sessions of the call are %q, want %s alone", legs, c.session.ID())
	}
}

// TestNegotiatedChannel has callers that open the data channel by themselves and say on which stream, as in OpenAI's guide
// "WebRTC with WARP".
func TestNegotiatedChannel(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{environ: waiting, stream: 4})
	first := r.dial(t, request{})
	first.next("bridge.ready")
	first.say("Hello.")
	first.next(realtime.TypeResponseDone)
	second := r.rejoin(t, first)
	second.welcomed()
	second.say("And now?")
	second.next(realtime.TypeResponseDone)
}

// TestHandOff moves a call from one browser to the next, and to another one: while a tool
// runs, and in the middle of an answer. The model does not notice.
func TestHandOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{environ: waiting})
	first := r.dial(t, request{session: asksMe})
	first.next("bridge.ready")
	first.say(waitPlease)
	asked := first.tool()

	second := r.rejoin(t, first)
	if reason := first.ended(); reason != "taken_over" {
		t.Errorf("the first browser got %s", reason)
	}
	second.welcomed()
	if got := second.tool(); got != asked {
		t.Errorf("the second browser got the tool call %s, want %s", got, asked)
	}
	second.deliver(asked, `{"said":"so"}`)
	second.saved("answer with the tool's result", says(thread.RoleAssistant, "It said so."))
	second.played("It said so.")
	inAnswer(second)

	third := r.rejoin(t, second)
	if reason := second.ended(); reason != "taken_over" {
		t.Errorf("the second browser got %s", reason)
	}
	third.welcomed()
	third.next(realtime.TypeAudioTranscriptDelta)
	third.hears(50)
	r.undisturbed(third)
	r.over(third, "hangup")

	again := newCaller(t, r)
	status, body := r.post(t, reconnectPath(first), "application/sdp", again.offer())
	wantRefusal(t, status, body, http.StatusNotFound, "call_not_found")
	r.wantLike(t, first.thread, slices.Concat([]string{
		"user text completed: " + waitPlease, "assistant voice completed: Wait.[dynamic-tool output-available]", "assistant voice completed: It said so.",
	}, interrupted))
	if rows := r.rows(t, "SELECT name, status FROM tool_calls"); !slices.Equal(rows, []string{"ask_me | done"}) {
		t.Errorf("tool calls %q", rows)
	}
	if n := received(third, realtime.TypeItemCreate); n != 3 { // two texts and one result
		t.Errorf("the model got %d items", n)
	}
	r.quiet()
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

// TestWaitingCallYields has calls without a browser that are ended by a new call on the
// thread, by a typed turn, and by hanging up.
func TestWaitingCallYields(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{environ: append(slices.Clone(waiting), "VOICEBRIDGE_TEXT_PROVIDER=simulator")})
	t.Run("calls", func(t *testing.T) {
		for name, end := range map[string]struct {
			reason string
			act    func(*testing.T, *caller)
		}{
			"to a new call": {"taken_over", func(t *testing.T, c *caller) {
				next := r.dial(t, request{thread: c.thread})
				next.next("bridge.ready")
				hello(next)
				r.over(next, "hangup")
			}},
			"to a typed turn": {"taken_over", func(t *testing.T, c *caller) {
				var status int
				var body string
				// While a slow database does not have the end of the call yet, the turn must
				// be tried again.
				testkit.Eventually(t, "a typed turn", func() bool {
					status, body = post(t, r.url+"/api/threads/"+c.thread+"/messages", `{"content":"Hello."}`)
					return status != http.StatusConflict
				})
				if status != http.StatusOK {
					t.Errorf("%d %s", status, body)
				}
				if said := r.script(t, c.thread); len(said) == 0 || !strings.HasPrefix(said[len(said)-1], "assistant text completed: ") {
					t.Errorf("thread %q", said)
				}
			}},
			"to a hang-up": {"hangup", func(_ *testing.T, c *caller) { c.hangUp() }},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := r.dial(t, request{})
				c.next("bridge.ready")
				c.away()
				end.act(t, c)
				r.over(c, end.reason)
				if got := r.script(t, c.thread); likeness(interrupted, got[:min(len(got), 2)]) != "" {
					t.Errorf("thread %q", got)
				}
				status, body := r.post(t, reconnectPath(c), "application/sdp", newCaller(t, r).offer())
				wantRefusal(t, status, body, http.StatusNotFound, "call_not_found")
			})
		}
	})
	r.quiet()
}

// TestStrangerReconnects has another owner try to use a call: for strangers it does not
// exist, and the call goes on.
func TestStrangerReconnects(t *testing.T) {
	t.Parallel()
	const ada, bert = "a-token-of-ada-and-more", "a-token-of-bert-and-more"
	r := newRig(t, rigConfig{environ: append([]string{"VOICEBRIDGE_API_TOKENS=ada:" + ada + ",bert:" + bert}, waiting...)})
	r.token = ada
	first := r.dial(t, request{})
	first.next("bridge.ready")
	for who, status := range map[string]int{bert: http.StatusNotFound, "nobody": http.StatusUnauthorized} {
		r.token = who
		if got, body := r.post(t, reconnectPath(first), "application/sdp", newCaller(t, r).offer()); got != status {
			t.Errorf("%s reconnects: %d %s, want %d", who, got, body, status)
		}
		if got, body := r.post(t, "/v1/realtime/calls/"+first.id+"/hangup", "", ""); got != status {
			t.Errorf("%s hangs up: %d %s, want %d", who, got, body, status)
		}
	}
	r.token = ada
	second := r.rejoin(t, first)
	second.next("bridge.ready")
	second.hangUp()
	r.over(second, "hangup")
}
