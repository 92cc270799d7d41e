package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// TestHTTPTools has an assistant's own tools run in a call and in a typed turn: by requests that are signed with the secret which the answer that
// made it has shown.
func TestHTTPTools(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	var secret string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(body))
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			t.Errorf("the signature of %s: %v", r.URL, err)
		}
		if strings.HasPrefix(r.URL.Path, "/missing") {
			http.Error(w, "There is no such room.", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"answer":42}`)
	}))
	t.Cleanup(receiver.Close)
	at, err := url.Parse(receiver.URL)
	testkit.Must(t, err)
	r := newRig(t, rigConfig{simulator: simulator.Config{Pace: quick}, environ: []string{
		"VOICEBRIDGE_TEXT_PROVIDER=simulator", "VOICEBRIDGE_TOOLS__WEB__ALLOW_NETWORKS=127.0.0.0/8", "VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS=" + at.Port(),
	}})
	var made struct{ Secret string }
	r.postJSON(t, "/api/assistants", `{"id":"rooms","name":"Rooms","tools":{"allow":["ask_me","look_up","missing"]},"http_tools":[
		{"name":"ask_me","description":"Asks.","parameters":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},"url":"`+receiver.URL+`/ask"},
		{"name":"look_up","parameters":{"type":"object","properties":{"city":{"type":"string"}}},"url":"`+receiver.URL+`/rooms?v=1","method":"GET"},
		{"name":"missing","url":"`+receiver.URL+`/missing","method":"PUT"},
		{"name":"denied","url":"`+receiver.URL+`/denied"}]}`, http.StatusCreated, &made)
	mu.Lock()
	secret = made.Secret
	mu.Unlock()
	if _, body := get(t, r.url+"/api/assistants/rooms"); strings.Contains(body, "whsec_") {
		t.Errorf("the secret is shown again: %s", body)
	}
	var thread struct{ ID string }
	r.postJSON(t, "/api/threads", `{"assistant_id":"rooms"}`, http.StatusCreated, &thread)

	c := r.dial(t, request{thread: thread.ID})
	c.next("bridge.ready")
	c.say(waitPlease)
	c.saved("answer after the tool", says("assistant", "It said so."))
	c.hangUp()
	var offered strings.Builder
	for _, event := range c.session.Received() {
		offered.Write(event.Event.Raw)
	}
	for name, want := range map[string]bool{`"ask_me"`: true, `"look_up"`: true, `"denied"`: false, `"create_bar_chart"`: false} {
		if got := strings.Contains(offered.String(), `"name":`+name); got != want {
			t.Errorf("the call has the tool %s: %t", name, got)
		}
	}
	for words, want := range map[string]string{`call look_up {"city":"Bonn"}`: `{"answer":42}`, "call missing {}": "127.0.0.1 answered 404: There is no such room."} {
		_, body := post(t, r.url+"/api/threads/"+thread.ID+"/messages", string(toJSON(t, map[string]string{"content": words})))
		_, all := get(t, r.url+"/api/threads/"+thread.ID+"/messages")
		if !strings.Contains(all, want) {
			t.Errorf("%s: no %s after\n%s\nin\n%s", words, want, body, all)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(asked)
	if got := strings.Join(asked, "\n"); got != `GET /rooms?city=Bonn&v=1 `+"\n"+`POST /ask {"a":1}`+"\n"+`PUT /missing {}` {
		t.Errorf("the receiver was asked\n%s", got)
	}
	if rows := r.rows(t, "SELECT name, executor, status FROM tool_calls ORDER BY started_at"); len(rows) != 3 || rows[0] != "ask_me | app | done" {
		t.Errorf("tool calls %q", rows)
	}
}
