package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// attempt is one request to a receiver.
type attempt struct {
	began, ended time.Time
	status       int
	cut          bool // its process died before the answer
}

// receiver is the other side of a hook.
type receiver struct {
	*httptest.Server
	t        *testing.T
	verifier *standardwebhooks.Webhook
	// answer returns the status for the nth attempt, or 0 to break off the connection.
	answer func(n int) int

	mu       sync.Mutex
	attempts map[string][]*attempt // by webhook-id
	running  map[string]context.Context
	bodies   map[string]string
	got      map[string]bool // webhook-ids of what was answered with 200
	enough   chan struct{}   // closed when want are in got
	want     int
}

func newReceiver(t *testing.T, want int, answer func(n int) int) *receiver {
	t.Helper()
	r := &receiver{
		t: t, answer: answer, want: want, enough: make(chan struct{}),
		attempts: map[string][]*attempt{}, running: map[string]context.Context{}, bodies: map[string]string{}, got: map[string]bool{},
	}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// hook makes the receiver's hook.
func (r *receiver) hook(p *program, events string) (id string) {
	r.t.Helper()
	var made struct{ ID, Secret string }
	p.postJSON(r.t, "/api/hooks", fmt.Sprintf(`{"url":%q,"events":%s}`, r.URL+"/", events), http.StatusCreated, &made)
	verifier, err := standardwebhooks.NewWebhook(made.Secret)
	testkit.Must(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifier = verifier
	return made.ID
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	id := req.Header.Get("webhook-id")
	r.mu.Lock()
	if err := r.verifier.Verify(body, req.Header); err != nil {
		r.t.Errorf("%s: %v", id, err)
	}
	if other := r.running[id]; other != nil && other.Err() == nil {
		r.t.Errorf("%s is posted twice at the same time", id)
	}
	if before, again := r.bodies[id]; again && before != string(body) {
		r.t.Errorf("%s has another body than before", id)
	}
	a := &attempt{began: time.Now()}
	r.attempts[id] = append(r.attempts[id], a)
	n := len(r.attempts[id])
	r.bodies[id], r.running[id] = string(body), req.Context()
	r.mu.Unlock()

	pause := time.NewTimer(rand.N(20 * time.Millisecond)) // so that two at the same time would meet
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-req.Context().Done():
	}
	status := r.answer(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	a.ended, a.status, a.cut = time.Now(), status, req.Context().Err() != nil
	delete(r.running, id)
	switch {
	case a.cut:
		return
	case status == 0:
		defer panic(http.ErrAbortHandler)
	case status == http.StatusOK && !r.got[id]:
		if r.got[id] = true; len(r.got) == r.want {
			close(r.enough)
		}
	}
	if status != 0 {
		w.WriteHeader(status)
	}
}

// untilRows waits until a query returns one row of one text.
func untilRows(t *testing.T, url, query, want string) {
	t.Helper()
	testkit.Eventually(t, want+" of "+query, func() bool { return persistencetest.Rows(t, url, query)[0][0] == want })
}

// check compares what a receiver got with what is promised: each event once it has answered well is posted again only if a
// process was killed meanwhile, and the pauses grow.
func (r *receiver) check(kills []time.Time) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	failed, again, cut := 0, 0, 0
	for id, attempts := range r.attempts {
		failures := 0
		for i, a := range attempts {
			killed := a.cut || i+1 < len(attempts) && slices.ContainsFunc(kills, func(at time.Time) bool {
				return at.After(a.began.Add(-time.Second)) && at.Before(attempts[i+1].began)
			})
			switch {
			case a.cut:
				cut++
				continue
			case a.status != http.StatusOK:
				failed++
				failures++
			case i+1 < len(attempts):
				if again++; !killed {
					r.t.Errorf("%s is posted again although it has arrived", id)
				}
			}
			if i+1 == len(attempts) || killed || a.status == http.StatusOK {
				continue
			}
			least := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}[failures-1]
			if pause := attempts[i+1].began.Sub(a.ended); pause < least {
				r.t.Errorf("%s: a pause of %v after failure %d, want %v", id, pause, failures, least)
			}
		}
	}
	r.t.Logf("%d events in %d attempts that failed, %d that were cut off, %d that were repeated", len(r.attempts), failed, cut, again)
}

// TestHooks follows a call, a typed turn and a tool through hooks of an owner and of the operator, on SQLite.
func TestHooks(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := standardwebhooks.NewWebhook(secret)
	testkit.Must(t, err)
	operator := newReceiver(t, -1, func(int) int { return http.StatusOK })
	operator.verifier = verifier
	owner := newReceiver(t, -1, func(int) int { return http.StatusOK })
	r := newRig(t, rigConfig{environ: []string{
		"VOICEBRIDGE_HOOKS__ALLOW=127.0.0.1", "HOOK_SECRET=" + secret,
		fmt.Sprintf(`VOICEBRIDGE_HOOKS__ENDPOINTS=[{"url":%q,"events":["*"],"secret_env":"HOOK_SECRET"}]`, operator.URL+"/"),
	}})
	id := owner.hook(r.program, `["call.*"]`)
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.say(chartPlease)
	c.saved("answer after the chart", says(thread.RoleAssistant, chartAnswer))
	c.hangUp()
	r.untilEnded(t, 1)
	for _, want := range []string{"call.started", "tool.completed", "message.completed", "turn.finished", "call.ended"} {
		operator.until(want)
	}
	ended := owner.until("call.ended")
	owner.until("call.started")
	var data map[string]any
	testkit.Must(t, json.Unmarshal(ended, &data))
	if data["owner"] != access.LocalOwner || data["thread_id"] == "" || data["end_reason"] != "hangup" || data["turns"] != 1.0 || data["duration_seconds"].(float64) <= 0 {
		t.Errorf("call.ended has %s", ended)
	}
	r.postJSON(t, "/api/hooks/"+id+"/test", "", http.StatusAccepted, nil)
	owner.until("hook.test")
	owner.mu.Lock()
	defer owner.mu.Unlock()
	if len(owner.bodies) != 3 {
		t.Errorf("the owner's hook has %v", owner.bodies)
	}
}

// until waits for an event of a type and returns its data.
func (r *receiver) until(kind string) json.RawMessage {
	r.t.Helper()
	var data json.RawMessage
	testkit.Eventually(r.t, "an event "+kind, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, body := range r.bodies {
			var e struct {
				Type string
				Data json.RawMessage
			}
			if json.Unmarshal([]byte(body), &e) == nil && e.Type == kind {
				data = e.Data
			}
		}
		return data != nil
	})
	return data
}
