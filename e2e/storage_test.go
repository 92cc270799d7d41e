package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
)

// TestStorageAway takes the database away from the program in the middle of a call, and brings it back. The
// call goes on, the caller and readiness checks are told, and afterwards everything is in
// the thread, in order.
func TestStorageAway(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL crashes", func(t *testing.T) {
		t.Parallel()
		server := persistencetest.NewServer(t)
		storageAway(t, server.URL(), func() func() { server.Crash(); return server.Start })
	})
	t.Run("SQLite is locked", func(t *testing.T) {
		t.Parallel()
		url := persistencetest.SQLiteURL(t)
		storageAway(t, url, func() func() { return persistencetest.LockSQLite(t, url) })
	})
}

func storageAway(t *testing.T, database string, leave func() (comeBack func())) {
	r := newRig(t, rigConfig{database: database})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	hello(c)
	until := func(kind string, n int) {
		t.Helper()
		c.until(fmt.Sprintf("%d times %s", n, kind), func() bool {
			told := 0
			for _, ev := range c.events {
				if ev.Type == kind {
					told++
				}
			}
			return told >= n
		})
	}
	comeBack := leave()
	c.say("Echo: one")
	until(realtime.TypeOutputBufferStopped, 2) // heard to its end
	until("bridge.storage.delayed", 1)
	ready := func() int { return r.do(t, http.MethodGet, "/readyz", "", "").status }
	testkit.Equal(t, ready(), http.StatusServiceUnavailable, "/readyz")
	c.say("Echo: two")
	until(realtime.TypeOutputBufferStopped, 3)
	comeBack()
	until("bridge.storage.recovered", 1)
	testkit.Eventually(t, "a program that is ready again", func() bool { return ready() == http.StatusOK })
	c.say("Echo: three")
	until(realtime.TypeOutputBufferStopped, 4)
	r.over(c, "hangup")
	want := []string{"user text completed: Hello.", "assistant voice completed: Well."}
	for _, n := range []string{"one", "two", "three"} {
		want = append(want, "user text completed: Echo: "+n, "assistant voice completed: Yes.")
	}
	r.wantScript(t, c.thread, want...)
	r.quiet()
}
