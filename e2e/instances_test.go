package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// TestTakenForDead ends a process's lease in the database, as its neighbours do when they
// hear nothing from it: its call ends, and it serves again.
func TestTakenForDead(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{database: persistencetest.PostgresURL(t)})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	if ended := r.rows(t, "UPDATE instances SET ended_at = beat_at WHERE ended_at IS NULL RETURNING 'ended'"); len(ended) != 1 {
		t.Fatalf("%d instances were ended, want 1", len(ended))
	}
	if reason := c.ended(); reason != "storage_failed" {
		t.Errorf("the call ended because of %s", reason)
	}
	r.upstreamEnded(c)
	r.untilReady(t)
	again := r.dial(t, request{})
	again.next("bridge.ready")
	r.over(again, "hangup")
}

// TestCallsOfOthers has a call on one process and does everything to it through another
// process on the same database.
func TestCallsOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{database: persistencetest.PostgresURL(t), environ: waiting})
	other := &rig{t: t, ctx: r.ctx, database: r.database, environ: r.environ, sim: r.sim, api: r.api}
	other.program = launch(t, r.environ, "serve")

	first := r.dial(t, request{})
	first.next("bridge.ready")
	if status, body := post(t, other.url+"/api/threads/"+first.thread+"/messages", `{"content":"Hello"}`); status != http.StatusAccepted || !strings.Contains(body, first.id) {
		t.Fatalf("typed text: %d %s", status, body)
	}
	first.saved("answer", says(persistence.RoleAssistant, "Well."))
	for path, want := range map[string]string{"interrupt": `"interrupted"`, "reset": `"id"`} {
		if status, body := post(t, other.url+"/api/threads/"+first.thread+"/"+path, ""); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	back := other.rejoin(t, first)
	back.welcomed()

	if _, status, body := other.try(t, request{thread: first.thread}); status != http.StatusConflict {
		t.Errorf("a second call without takeover: %d %s", status, body)
	}
	second := other.dial(t, request{thread: first.thread, takeover: true})
	second.next("bridge.ready")
	if reason := back.ended(); reason != "taken_over" {
		t.Errorf("the call of the other process ended because of %s", reason)
	}
	if status, body := post(t, r.url+"/v1/realtime/calls/"+second.id+"/hangup", ""); status != http.StatusOK {
		t.Errorf("hang up: %d %s", status, body)
	}
	if reason := second.ended(); reason != "hangup" {
		t.Errorf("the call ended because of %s", reason)
	}
	r.wantLeft(first, "taken_over")
	r.wantLeft(second, "hangup")
}

// untilReady waits until the process accepts calls.
func (r *rig) untilReady(t *testing.T) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		status, body := get(t, r.url+"/readyz")
		if status == http.StatusOK {
			return
		}
		select {
		case <-again.C:
		case <-limit.C:
			t.Fatalf("not ready: %d %s", status, body)
		}
	}
}
