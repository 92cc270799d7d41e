//go:build nightly

package e2e

import (
	"context"
	"flag"
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
	must(r.t, err)
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
