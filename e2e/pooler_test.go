package e2e

import (
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestBehindAPooler has two processes on one database behind PgBouncer in transaction
// mode, where no notification arrives: they learn about each other by polling.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, rigConfig{database: persistencetest.NewPooler(t).URL(t), environ: append(slices.Clone(waiting), "VOICEBRIDGE_LIMITS__MAX_CALLS_PER_OWNER=1")})
	for i, n := range c.nodes {
		if !strings.Contains(n.stderr.String(), "the database is polled twice a second") {
			t.Errorf("process %d does not say that it is behind a pooler", i)
		}
	}
	owner := followOwner(t, c.at(1).url)
	first := c.at(0).dial(t, request{})
	first.next("bridge.ready")
	owner.learns("call_started", first)
	follower := followThread(t, c.at(1).url, first.thread)
	typed := `{"content":"Hello","idempotency_key":"k"}`
	if status, body := insist(t, func() (int, string) { return post(t, c.url+"/api/threads/"+first.thread+"/messages", typed) }); status != http.StatusAccepted {
		t.Fatalf("typed text: %d %s", status, body)
	}
	first.saved("answer", says(thread.RoleAssistant, "Well."))
	follower.next("message", nil)
	follower.leave()
	_, status, body := c.try(t, request{})
	wantRefusal(t, status, body, http.StatusTooManyRequests, "too_many_calls") // both share one limit
	second := c.at(1).dial(t, request{thread: first.thread, takeover: true})
	second.next("bridge.ready")
	testkit.Equal(t, first.ended(), "taken_over", "the call ended because")
	owner.learns("call_ended", first)
	owner.leave()
	c.at(0)
	c.over(second, "hangup")
	oneOfMany(t, c)
}

// oneOfMany sets up many calls of an owner who may have one, on all processes at one moment: one of them
// begins, and the next one when its process is gone.
func oneOfMany(t *testing.T, c *cluster) {
	t.Helper()
	c.at(-1)
	locations := make(chan string, 8)
	var all sync.WaitGroup
	for range cap(locations) {
		offer := newCaller(t, c.rig).offer()
		all.Go(func() {
			res, err := unpooled.Post(c.url+"/v1/realtime/calls", "application/sdp", strings.NewReader(offer))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated {
				wantRefusal(t, res.StatusCode, string(body), http.StatusTooManyRequests, "too_many_calls")
				return
			}
			locations <- res.Header.Get("Location")
		})
	}
	all.Wait()
	if len(locations) != 1 {
		t.Fatalf("%d calls of an owner who may have one", len(locations))
	}
	location, _ := testkit.Receive(t, "the one call", locations)
	id := path.Base(location)
	home := c.homeOf("c.id = '" + id + "'")
	c.nodes[home].kill()
	c.at(1 - home)
	var last *caller
	testkit.Eventually(t, "room for a call when the process of the other one is gone", func() bool {
		var status int
		var body string
		last, status, body = c.try(t, request{})
		if status != http.StatusCreated {
			wantRefusal(t, status, body, http.StatusTooManyRequests, "too_many_calls")
		}
		return status == http.StatusCreated
	})
	last.next("bridge.ready")
	c.over(last, "hangup")
	c.launch(home)
}
