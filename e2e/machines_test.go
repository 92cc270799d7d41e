package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/thread"
)

const (
	// freedWithin is how long the calls of a killed process may hold their threads: for 15 s they
	// do, and a busy machine takes its time for the rest.
	freedWithin = time.Minute
	// frozenFor is how long a process may lose its database without a call ending.
	frozenFor = 5 * time.Second
)

// TestManyMachines has three processes on one PostgreSQL behind a proxy without sticky
// sessions. Each does everything with the calls of the others; one loses its database for
// a while, one is killed, and all are replaced while calls go on.
func TestManyMachines(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, rigConfig{database: persistencetest.PostgresURL(t), environ: waiting})
	for i := range c.nodes {
		if status, body := get(t, c.at(i).url+"/api/threads"); status != http.StatusOK {
			t.Fatalf("the page session of another process: %d %s", status, body)
		}
	}
	everyRoute(t, c.at(-1))
	frozenDatabase(t, c.at(-1))
	killedMachine(t, c.at(-1))
	rollingRestart(t, c.at(-1))
}

// everyRoute uses every route of a call on each process.
func everyRoute(t *testing.T, c *cluster) {
	var owners []*follower
	for i := range c.nodes {
		owners = append(owners, followOwner(t, c.at(i).url))
	}
	first := c.at(-1).dial(t, request{session: asksMe})
	first.next("bridge.ready")
	for _, o := range owners {
		o.learns("call_started", first)
		o.leave()
	}
	home := c.home(first)
	away, third := (home+1)%3, (home+2)%3
	for i := range c.nodes {
		follower := followThread(t, c.at(i).url, first.thread)
		if id := follower.greeting.CallID; id == nil || *id != first.id {
			t.Errorf("a socket on another process says that the call is %v", id)
		}
		text := fmt.Sprintf(`{"content":"Hello","idempotency_key":"%d"}`, i)
		status, body := insist(t, func() (int, string) { return post(t, c.url+"/api/threads/"+first.thread+"/messages", text) })
		if status != http.StatusAccepted || !strings.Contains(body, first.id) {
			t.Fatalf("typed text: %d %s", status, body)
		}
		first.next(realtime.TypeResponseDone)
		follower.next("message", nil)
		follower.leave()
	}

	first.say(waitPlease)
	tool := first.tool()
	back := c.at(away).rejoin(t, first)
	back.welcomed()
	back.deliver(tool, "42")
	back.saved("answer after the tool", says(thread.RoleAssistant, "It said so."))

	queued := c.queue(t, first.thread)
	testkit.Eventually(t, "queued messages in the call of another process", func() bool {
		said := c.script(t, first.thread)
		return !slices.ContainsFunc(queued, func(text string) bool { return !slices.Contains(said, "user text completed: "+text) })
	})
	c.at(away).sendByHand(t, first.thread)

	if _, status, body := c.try(t, request{thread: first.thread}); status != http.StatusConflict {
		t.Errorf("a second call without takeover: %d %s", status, body)
	}
	second := c.at(away).dial(t, request{thread: first.thread, takeover: true})
	second.next("bridge.ready")
	testkit.Equal(t, back.ended(), "taken_over", "the call of the other process ended because")
	for path, want := range map[string]string{"interrupt": `"interrupted"`, "reset": `"id"`} {
		status, body := insist(t, func() (int, string) { return post(t, c.at(third).url+"/api/threads/"+first.thread+"/"+path, "") })
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	c.at(third)
	second.hangUp()
	testkit.Equal(t, second.ended(), "hangup", "the call ended because")
	c.wantLeft(first, "taken_over")
	c.wantLeft(second, "hangup")
}

// queue adds a message to the thread's queue through each process.
func (c *cluster) queue(t *testing.T, thread string) (texts []string) {
	t.Helper()
	for i := range c.nodes {
		text := fmt.Sprintf("Echo: %d", i)
		if status, body := post(t, c.at(i).url+"/api/threads/"+thread+"/queue", fmt.Sprintf(`{"message":%q}`, text)); status != http.StatusCreated {
			t.Fatalf("queue: %d %s", status, body)
		}
		texts = append(texts, text)
	}
	c.at(-1)
	return texts
}

// sendByHand sends a message that is not due yet.
func (c *cluster) sendByHand(t *testing.T, thread string) {
	t.Helper()
	path := c.url + "/api/threads/" + thread + "/queue"
	status, body := post(t, path, `{"message":"Echo: by hand","scheduled_at":"1h"}`)
	var m struct{ ID string }
	if err := json.Unmarshal([]byte(body), &m); err != nil || status != http.StatusCreated {
		t.Fatalf("queue: %d %s", status, body)
	}
	late := false // it may have been sent, by a process that did not answer in time
	testkit.Eventually(t, "a call that can be told something", func() bool {
		status, body := post(t, path+"/"+m.ID+"/send", "")
		switch {
		case status == http.StatusServiceUnavailable:
			late = true
		case status == http.StatusNotFound && late:
			return true
		case status != http.StatusOK && status != http.StatusConflict: // Conflict: it is being answered already
			t.Fatalf("send by hand: %d %s", status, body)
		}
		return status == http.StatusOK
	})
	if said := c.script(t, thread); !slices.Contains(said, "user text completed: Echo: by hand") {
		t.Errorf("what was sent by hand is not there: %q", said)
	}
}

// frozenDatabase cuts one process off from its database for some seconds, during which its
// call goes on.
func frozenDatabase(t *testing.T, c *cluster) {
	frozen := c.at(1).dial(t, request{})
	frozen.next("bridge.ready")
	neighbour := c.at(2).dial(t, request{})
	neighbour.next("bridge.ready")
	thaw := c.nodes[1].path.Freeze()
	defer thaw()
	until := time.NewTimer(frozenFor)
	frozen.say("Hello.")
	frozen.next(realtime.TypeResponseDone)
	neighbour.say("Hello.")
	neighbour.saved("answer of a neighbour", says(thread.RoleAssistant, "Well."))
	if status, body := get(t, c.at(-1).url+"/api/threads/"+frozen.thread+"/messages"); status != http.StatusOK {
		t.Errorf("the thread of a frozen process: %d %s", status, body)
	}
	<-until.C
	thaw()
	frozen.saved("answer of the time without a database", says(thread.RoleAssistant, "Well."))
	for _, one := range []*caller{frozen, neighbour} {
		hello(one)
		c.over(one, "hangup")
	}
	c.wantScript(t, frozen.thread, slices.Concat(answered, answered)...)
}

// killedMachine kills a process in the middle of a call. Its thread is soon free, its
// upstream session is hung up, and a call on another process continues the thread.
func killedMachine(t *testing.T, c *cluster) {
	killed := c.at(0).dial(t, request{})
	killed.next("bridge.ready")
	hello(killed)
	other := c.at(1).dial(t, request{})
	other.next("bridge.ready")
	c.nodes[0].kill()
	at := time.Now()
	c.at(-1)
	var again *caller
	testkit.Eventually(t, "a call on the thread of a killed process", func() bool {
		var status int
		var body string
		again, status, body = c.try(t, request{thread: killed.thread})
		if status != http.StatusCreated && status != http.StatusConflict {
			t.Fatalf("the next call: %d %s", status, body)
		}
		return status == http.StatusCreated
	})
	if took := time.Since(at); took > freedWithin {
		t.Errorf("the thread was free after %v", took)
	}
	again.next("bridge.ready")
	c.wantLike(t, killed.thread, answered)
	c.upstreamEnded(killed)
	if got := c.rows(t, fmt.Sprintf("SELECT end_reason FROM calls WHERE id = '%s'", killed.id)); len(got) != 1 || got[0] != "process_ended" {
		t.Errorf("the call of the killed process ended because of %q", got)
	}
	hello(again)
	hello(other) // other calls are not affected
	c.over(again, "hangup")
	c.over(other, "hangup")
	c.launch(0)
}

// rollingRestart stops one process after the other and starts another in its place. At
// every moment requests find a process that accepts work.
func rollingRestart(t *testing.T, c *cluster) {
	for i := range c.nodes {
		moving, staying := c.at(i).dial(t, request{}), c.at((i+1)%3).dial(t, request{})
		moving.next("bridge.ready")
		staying.next("bridge.ready")
		c.at(-1)
		n := c.nodes[i]
		n.mine = true // the test stops it itself
		must(t, n.cmd.Process.Signal(syscall.SIGTERM))
		for over := false; !over; {
			select {
			case <-n.ended:
				over = true
			default:
			}
			if status, body := get(t, c.url+"/api/threads/"+moving.thread); status != http.StatusOK {
				t.Fatalf("a request during the restart: %d %s", status, body)
			}
		}
		testkit.Equal(t, n.cmd.ProcessState.ExitCode(), 0, "exit code")
		testkit.Equal(t, moving.ended(), "shutdown", "the call of a process that stops ended because")
		c.wantLeft(moving, "shutdown")
		again := c.dial(t, request{thread: moving.thread})
		again.next("bridge.ready")
		hello(staying)
		c.over(again, "hangup")
		c.over(staying, "hangup")
		c.launch(i)
	}
}
