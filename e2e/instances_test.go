package e2e

import (
	"net/http"
	"testing"

	"voicebridge/internal/testkit"
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
	testkit.Equal(t, c.ended(), "storage_failed", "the call ended because")
	r.upstreamEnded(c)
	r.untilReady(t)
	again := r.dial(t, request{})
	again.next("bridge.ready")
	r.over(again, "hangup")
}

// untilReady waits until the process accepts calls.
func (r *rig) untilReady(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "a process that is ready", func() bool {
		status, _ := get(t, r.url+"/readyz")
		return status == http.StatusOK
	})
}
