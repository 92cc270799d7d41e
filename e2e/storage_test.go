package e2e

import (
	"net/http"
	"slices"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
)

// TestStorageAway takes the database away in the middle of a call, and gives it back. The call goes on, the
// caller and whoever asks whether the program is ready are told, and all of it is in the thread afterwards,
// in order; also when the program is killed before the database is back.
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
	inOutage := func(text string) {
		before := len(c.all())
		c.say(text)
		for _, kind := range []string{realtime.TypeOutputBufferStopped, "bridge.storage.delayed"} { // in either order
			c.until(kind, func() bool {
				return slices.ContainsFunc(c.events[before:], func(ev told) bool { return ev.Type == kind })
			})
		}
		if got := r.do(t, http.MethodGet, "/readyz", "", ""); got.status != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d %s", got.status, got.body)
		}
	}
	comeBack := leave()
	inOutage("Echo: one")
	comeBack()
	c.next("bridge.storage.recovered")
	eventually(t, "a program that is ready again", func() bool { return r.do(t, http.MethodGet, "/readyz", "", "").status == http.StatusOK })
	c.saved("answer of the outage", says(persistence.RoleAssistant, "Yes."))

	comeBack = leave()
	inOutage("Echo: two")
	r.kill()
	comeBack()
	r.startAgain()
	want := []string{
		"user text completed: Hello.", "assistant voice completed: Well.", "user text completed: Echo: one", "assistant voice completed: Yes.",
		"user text completed: Echo: two", "assistant voice completed: Yes.",
	}
	eventually(t, "the whole thread", func() bool { return len(r.script(t, c.thread)) == len(want) })
	r.wantScript(t, c.thread, want...)
	r.wantLeft(c, "process_ended")
}
