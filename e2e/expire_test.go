package e2e

import (
	"net/http"
	"slices"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// TestRetention starts processes with threads of which one is past the retention period: whichever
// of two processes comes first deletes it with everything said in it, and the others stay.
func TestRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{database: persistencetest.PostgresURL(t)})
	old, young, alive := newThread(t, r.url), newThread(t, r.url), r.dial(t, request{})
	alive.next("bridge.ready")
	for _, id := range []string{old, young} {
		if status, body := post(t, r.url+"/api/threads/"+id+"/queue", `{"message":"x","scheduled_at":"1h"}`); status != http.StatusCreated {
			t.Fatalf("queue: %d %s", status, body)
		}
	}
	r.rows(t, "UPDATE threads SET updated_at = now() - interval '8 days' WHERE id = '"+old+"' RETURNING id")
	r.rows(t, "UPDATE threads SET updated_at = now() - interval '6 days' WHERE id = '"+young+"' RETURNING id")
	for range 2 {
		launch(t, append(slices.Clone(r.environ), "VOICEBRIDGE_CONVERSATIONS__RETENTION_DAYS=7"), "serve")
	}
	testkit.Eventually(t, "an old conversation that is gone", func() bool {
		status, _ := get(t, r.url+"/api/threads/"+old)
		return status == http.StatusNotFound && len(r.rows(t, "SELECT id FROM queued_messages WHERE thread_id = '"+old+"'")) == 0
	})
	for _, id := range []string{young, alive.thread} {
		if status, body := get(t, r.url+"/api/threads/"+id); status != http.StatusOK {
			t.Errorf("a thread to keep: %d %s", status, body)
		}
	}
	hello(alive)
	r.over(alive, "hangup")
}
