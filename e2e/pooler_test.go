package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
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
	first := c.at(0).dial(t, request{})
	first.next("bridge.ready")
	follower := followThread(t, c.at(1).url, first.thread)
	if status, body := post(t, c.url+"/api/threads/"+first.thread+"/messages", `{"content":"Hello"}`); status != http.StatusAccepted {
		t.Fatalf("typed text: %d %s", status, body)
	}
	first.saved("answer", says(persistence.RoleAssistant, "Well."))
	follower.next("message", nil)
	follower.leave()
	_, status, body := c.try(t, request{})
	wantRefusal(t, status, body, http.StatusTooManyRequests, "too_many_calls") // both share one limit
	second := c.at(1).dial(t, request{thread: first.thread, takeover: true})
	second.next("bridge.ready")
	if reason := first.ended(); reason != "taken_over" {
		t.Errorf("the call ended because of %s", reason)
	}
	c.at(0)
	c.over(second, "hangup")
}
