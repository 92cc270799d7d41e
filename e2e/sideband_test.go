package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// beside joins a call as an application's server does.
func (r *rig) beside(t *testing.T, call *caller, token string) (c *socketCaller, status int, body string) {
	t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	c, status, body = r.upgrade(t, "/v1/realtime?call_id="+call.id, header, []string{"realtime"}, len(r.sim.Sessions()))
	if c != nil {
		if c.id != call.id || c.thread != call.thread || body != "realtime" {
			t.Errorf("joined call %q of thread %q by protocol %q", c.id, c.thread, body)
		}
		c.session = call.session
	}
	return c, status, body
}

// declares sets instructions and a tool that the script calls.
const declares = `{"type":"session.update","event_id":"s1","session":{"instructions":"Say little.","tools":[{"type":"function","name":"ask_me","parameters":{"type":"object"}},{"type":"function","name":"create_pie_chart","parameters":{"type":"object"}}]}}`

// TestSideband has an application's server, another client, run a tool in a call of another connection, go, and come back.
func TestSideband(t *testing.T) {
	t.Parallel()
	const token, other = "token-of-ann-0123456789", "token-of-bob-0123456789"
	r := newRig(t, rigConfig{environ: []string{"VOICEBRIDGE_API_TOKENS=ann:" + token + ",bob:" + other}})
	r.token = token
	call, _, _ := r.connect(t, handshake{token: token})
	call.next("bridge.ready")
	_, secret := r.post(t, "/v1/realtime/client_secrets", "application/json", "{}")
	var made struct{ Value string }
	must(t, json.Unmarshal([]byte(secret), &made))
	for name, tt := range map[string]struct {
		token  string
		status int
		code   string
	}{
		"no token": {"", 401, ""}, "a wrong token": {"token-of-ann-0123456788", 401, ""}, "a client secret": {made.Value, 403, "token_required"}, "a stranger": {other, 404, "call_not_found"},
	} {
		if _, status, body := r.beside(t, call.caller, tt.token); status != tt.status || !strings.Contains(body, tt.code) || !strings.Contains(body, `{"error":{`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}

	side, status, body := r.beside(t, call.caller, token)
	if side == nil {
		t.Fatalf("join: %d %s", status, body)
	}
	side.next("bridge.ready")
	if first := side.all()[0]; first.Type != realtime.TypeSessionCreated || side.seen != 2 {
		t.Errorf("the first events: %s", side.tail())
	}
	side.put("%s", declares)
	if e := side.refusal("s1"); e.Code != "tool_exists" {
		t.Errorf("a tool of the server: %+v", e)
	}
	side.next(realtime.TypeSessionUpdated)
	if !slices.ContainsFunc(call.session.Received(), func(r simulator.Record) bool { return strings.Contains(string(r.Event.Session), `"Say little."`) }) {
		t.Error("the model is not told the instructions")
	}
	call.say(waitPlease)
	side.deliver(side.tool(), "42")
	call.saved("answer after the tool", says(thread.RoleAssistant, "It said so."))
	side.saved("answer after the tool", says(thread.RoleAssistant, "It said so."))
	for _, ev := range call.all() {
		if strings.Contains(string(ev.Raw), `"function_call"`) {
			t.Errorf("the caller sees %s", ev.Raw)
		}
	}
	side.say("Echo: from the side")
	call.saved("answer", says(thread.RoleAssistant, "Yes."))

	var more []*socketCaller
	for range 3 {
		c, _, _ := r.beside(t, call.caller, token)
		c.next("bridge.ready")
		more = append(more, c)
	}
	if _, status, body := r.beside(t, call.caller, token); status != http.StatusTooManyRequests || !strings.Contains(body, `"too_many_sidebands"`) {
		t.Errorf("a fifth: %d %s", status, body)
	}

	call.say(waitPlease)
	side.tool()
	must(t, side.conn.CloseNow())
	failed := call.next("bridge.tool.failed")
	if !strings.Contains(string(failed.Raw), "not connected") {
		t.Errorf("the tool whose sideband is gone: %s", failed.Raw)
	}
	call.say("Echo: still here")
	call.saved("answer", says(thread.RoleAssistant, "Yes."))

	call.hangUp()
	for _, c := range append(more, call) {
		testkit.Equal(t, c.ended(), "hangup", "a connection ended")
		c.until("the end of the socket", func() bool { return c.closed })
	}
	if _, status, _ := r.beside(t, call.caller, token); status != http.StatusNotFound {
		t.Errorf("after the end: %d", status)
	}
}

// TestSocketsElsewhere has the sockets of a call come to a process that does not have it.
func TestSocketsElsewhere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, rigConfig{database: persistencetest.PostgresURL(t), environ: append(slices.Clone(waiting), "VOICEBRIDGE_LOG__LEVEL=debug")})
	for i := range c.nodes {
		if status, _ := get(t, c.at(i).url+"/api/threads"); status != http.StatusOK {
			t.Fatalf("process %d: %d", i, status)
		}
	}
	first, status, body := c.at(0).connect(t, handshake{token: clusterToken})
	if first == nil {
		t.Fatalf("call: %d %s", status, body)
	}
	first.next("bridge.ready")
	if home := c.home(first.caller); home != 0 {
		t.Fatalf("process %d has the call", home)
	}

	side, status, body := c.at(1).rig.beside(t, first.caller, clusterToken)
	if side == nil {
		t.Fatalf("join: %d %s", status, body)
	}
	side.next("bridge.ready")
	side.put("%s", declares)
	side.next(realtime.TypeSessionUpdated)
	first.say(waitPlease)
	side.deliver(side.tool(), "42")
	first.saved("answer after the tool", says(thread.RoleAssistant, "It said so."))

	if _, status, body := c.at(1).upgrade(t, "/v1/realtime?call_id="+first.id, http.Header{"Voicebridge-Pass": {"forged"}}, nil, 0); status != http.StatusUnauthorized {
		t.Errorf("a forged pass: %d %s", status, body)
	}
	if _, status, body := c.at(1).upgrade(t, "/v1/realtime?call_id=none", nil, nil, 0); status != http.StatusNotFound && status != http.StatusForbidden {
		t.Errorf("a call that there is not: %d %s", status, body)
	}

	second, status, body := c.at(1).again(t, first.caller)
	if second == nil {
		t.Fatalf("reconnect: %d %s", status, body)
	}
	testkit.Equal(t, first.ended(), "taken_over", "the first connection ended")
	second.welcomed()
	second.say("Echo: hello")
	second.next(realtime.TypeOutputAudioDelta)
	second.saved("answer", says(thread.RoleAssistant, "Yes."))
	silence := base64.StdEncoding.EncodeToString(pcm.Linear.Append(nil, make([]int16, 24_000/2)))
	second.put(`{"type":"input_audio_buffer.append","audio":%q}`, silence)
	heard := second.session.AudioPackets()
	testkit.Eventually(t, "the caller's sound at the upstream", func() bool { return second.session.AudioPackets() > heard })

	must(t, second.conn.CloseNow()) // the call waits
	third := c.at(1).rejoin(t, second.caller)
	third.welcomed()
	side.next("bridge.message")
	third.hangUp()
	testkit.Equal(t, side.ended(), "hangup", "the sideband ended")
	side.until("the end of the socket", func() bool { return side.closed })
}
