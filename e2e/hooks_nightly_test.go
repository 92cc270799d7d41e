//go:build nightly

package e2e

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
)

var hookEvents = flag.Int("hooks.events", 6000, "how many events TestHooksInACluster delivers to each receiver")

// TestHooksInACluster has three processes post thousands of events while they are killed one after the other, to a receiver that
// fails at random, to one that never answers, and to one that always does.
func TestHooksInACluster(t *testing.T) {
	t.Parallel()
	events := *hookEvents
	url := persistencetest.PostgresURL(t)
	environ := append(environment(t), "DATABASE_URL="+url, "VOICEBRIDGE_HOOKS__ALLOW=127.0.0.1")
	processes := make([]*program, 3)
	for i := range processes {
		processes[i] = launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	}
	dead := newReceiver(t, -1, nil)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	dead.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	good, bad := newReceiver(t, events, func(int) int { return http.StatusOK }), newReceiver(t, events, flaky)
	deadHook := dead.hook(processes[0], `["*"]`)
	hooks := []string{good.hook(processes[1], `["message.*"]`), bad.hook(processes[2], `["message.completed"]`)}

	// The events, each with its message in one transaction, on several threads.
	store := persistencetest.Open(t, url, persistence.Options{NoMigrate: true})
	began := time.Now()
	var said sync.WaitGroup
	for range 4 {
		key := persistencetest.NewThread(t, store, access.LocalOwner, "")
		said.Go(func() {
			for i := range events / 4 {
				put := persistence.PutMessage{Message: thread.Message{ID: persistence.NewID(), Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(fmt.Sprint("number ", i))}}}
				put.Message.Metadata.Status = thread.StatusCompleted
				if applied, err := store.ApplyAll(t.Context(), []persistence.ThreadChanges{{Key: key, Changes: []persistence.Change{put}}}); err != nil || len(applied[0].Lost) > 0 {
					t.Errorf("ApplyAll() = %+v, %v", applied, err)
					return
				}
			}
		})
	}
	var kills []time.Time
	for i := range processes {
		select {
		case <-time.After(rand.N(4 * time.Second)):
		case <-t.Context().Done():
		}
		kills = append(kills, time.Now())
		processes[i].kill()
		processes[i] = launch(t, environ, "serve", "--listen", "127.0.0.1:0")
	}
	said.Wait()
	t.Logf("%d events said after %v", events, time.Since(began))
	for name, r := range map[string]*receiver{"good": good, "flaky": bad} {
		out, stop := testkit.Limit()
		select {
		case <-r.enough:
			stop()
		case <-out:
			r.mu.Lock()
			t.Errorf("the %s receiver has %d of %d events", name, len(r.got), events)
			r.mu.Unlock()
		}
		t.Logf("all at the %s receiver after %v", name, time.Since(began))
	}
	for _, r := range []*receiver{good, bad} {
		r.check(kills)
	}
	// Nobody keeps a claim, and no event is delivered more often than its attempts say.
	for _, hook := range hooks {
		untilRows(t, url, "SELECT count(*) FROM hook_deliveries WHERE hook_id = '"+hook+"' AND (state <> 'delivered' OR instance <> '')", "0")
		untilRows(t, url, "SELECT count(*) FROM hook_deliveries WHERE hook_id = '"+hook+"'", fmt.Sprint(events))
	}
	untilRows(t, url, "SELECT count(*) FROM hook_deliveries WHERE hook_id = '"+deadHook+"' AND state <> 'waiting'", "0")
}

// flaky fails at random, in several ways, but at most twice: the third pause would take two minutes.
func flaky(n int) int {
	if n > 2 || rand.IntN(6) > 0 {
		return http.StatusOK
	}
	return []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusFound, http.StatusNotFound, 0}[rand.IntN(5)]
}
