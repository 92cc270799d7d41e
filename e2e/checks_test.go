package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// read gets a JSON document.
func (r *rig) read(t *testing.T, path string, v any) {
	t.Helper()
	got := r.do(t, http.MethodGet, path, "", "")
	if err := json.Unmarshal([]byte(got.body), v); got.status != http.StatusOK || err != nil {
		t.Fatalf("%s: %d %s", path, got.status, got.body)
	}
}

// messages reads the thread as a page does.
func (r *rig) messages(t *testing.T, threadID string) []thread.Message {
	t.Helper()
	var page struct{ Messages []thread.Message }
	r.read(t, "/api/threads/"+threadID+"/messages?limit=1000", &page)
	return page.Messages
}

// script is the thread with one message per line.
func (r *rig) script(t *testing.T, thread string) []string {
	t.Helper()
	var lines []string
	for _, m := range r.messages(t, thread) {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("%s %s %s: %s", m.Role, m.Metadata.Source, m.Metadata.Status, m.Text()))
		for _, p := range m.Parts {
			if p.IsTool() {
				line.WriteString(fmt.Sprintf("[%s %s]", p.Type, p.State))
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

// wantScript compares the thread with the lines that it must have.
func (r *rig) wantScript(t *testing.T, thread string, want ...string) {
	t.Helper()
	testkit.Equal(t, r.script(t, thread), want, "thread")
}

// rows queries the database directly.
func (r *rig) rows(t *testing.T, query string) []string {
	t.Helper()
	var lines []string
	for _, row := range persistencetest.Rows(t, r.database, query) {
		lines = append(lines, strings.Join(row, " | "))
	}
	return lines
}

// over waits until the call is completely over, and checks what it leaves: one end with
// this reason, nothing open in the thread, and no call at the upstream.
func (r *rig) over(c *caller, reason string) {
	c.t.Helper()
	c.hangUp() // returns when the call is over
	r.wantLeft(c, reason)
}

// wantLeft is over for a call that has already ended.
func (r *rig) wantLeft(c *caller, reason string) {
	c.t.Helper()
	r.untilSaved(c)
	const ended = "CASE WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END"
	if got := r.rows(c.t, fmt.Sprintf("SELECT end_reason, "+ended+" FROM calls WHERE id = '%s'", c.id)); !cmp.Equal(got, []string{reason + " | ended"}) {
		c.t.Errorf("the call's row is %q, want it ended by %s", got, reason)
	}
	r.nothingOpen(c.t, c.thread)
	r.upstreamEnded(c)
}

// untilSaved waits until the end of a call is in the database, and with it all that came
// before. On a slow machine that is after the call is over: the spool has it until then.
func (r *rig) untilSaved(c *caller) {
	c.t.Helper()
	testkit.Eventually(c.t, "the end of the call in the database", func() bool {
		return len(r.rows(c.t, fmt.Sprintf("SELECT id FROM calls WHERE id = '%s' AND ended_at IS NOT NULL", c.id))) == 1
	})
}

// upstream returns one of the upstream's sessions, of which the first is number 0.
func (r *rig) upstream(t *testing.T, n int) *simulator.Session {
	t.Helper()
	all := r.sim.Sessions()
	if n >= len(all) {
		t.Fatalf("no session %d of the upstream, there are %d; the calls: %q", n, len(all), r.rows(t, "SELECT id, started_at, ended_at, end_reason FROM calls ORDER BY started_at"))
	}
	return all[n]
}

// upstreamEnded waits for the end of the upstream's call, which must have been hung up if
// it had an id.
func (r *rig) upstreamEnded(c *caller) {
	c.t.Helper()
	testkit.Receive(c.t, "the end of the upstream's call", c.session.Done())
	if _, asked := r.hangUps.Load(c.session.ID()); !asked && !c.nameless && !r.socket {
		c.t.Errorf("the upstream's call was not hung up and ended because of %v", c.session.Err())
	}
}

// nothingOpen checks that everything in a thread is finished.
func (r *rig) nothingOpen(t *testing.T, thread string) {
	t.Helper()
	for table, open := range map[string]string{
		"calls": "ended_at IS NULL", "messages": "status = 'in_progress'", "tool_calls": "status = 'running'", "responses": "status = 'in_progress'",
	} {
		if rows := r.rows(t, fmt.Sprintf("SELECT id FROM %s WHERE thread_id = '%s' AND %s", table, thread, open)); len(rows) > 0 {
			t.Errorf("%d %s of the thread are open: %q", len(rows), table, rows)
		}
	}
}

// metrics reads the process's metrics, by name and labels; there are none for somebody who has not signed in.
func (r *rig) metrics() map[string]float64 {
	r.t.Helper()
	out := map[string]float64{}
	res := r.do(r.t, http.MethodGet, "/metrics", "", "")
	if res.status != http.StatusOK {
		return out
	}
	for line := range strings.Lines(res.body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		space := strings.LastIndexByte(line, ' ') // values of labels may have spaces, too
		value, err := strconv.ParseFloat(strings.TrimSpace(line[space+1:]), 64)
		must(r.t, err)
		out[line[:space]] = value
	}
	return out
}

// load reads how many calls and goroutines the process has. Reading uses goroutines
// itself, sometimes more, sometimes fewer, and the runtime's count may be too low while it
// works: so it counts several times, and returns the lowest first.
func (r *rig) load() (calls int, goroutines []int) {
	r.t.Helper()
	tick := time.Tick(20 * time.Millisecond)
	for range 7 {
		<-tick
		m := r.metrics()
		calls = int(m["voicebridge_calls_live"])
		goroutines = append(goroutines, int(m["go_goroutines"]))
	}
	slices.Sort(goroutines)
	return calls, goroutines
}

// rest records how many goroutines the process has without calls, once they are as many as
// they were just before: the last ones may still be starting.
func (r *rig) rest() {
	r.t.Helper()
	count := func() int {
		_, goroutines := r.load()
		return goroutines[len(goroutines)/2]
	}
	const tries = 20
	for before, try := count(), 0; try < tries; try++ {
		if r.resting = count(); r.resting == before {
			break
		}
		before = r.resting
	}
	if strings.HasPrefix(r.database, "postgres") {
		// A connection with a write that took longer than 15 ms has its own reader until it
		// is used again (pgx, bgreader).
		r.resting += 2
	}
}

// quiet waits until the process has no calls and no more goroutines than before the first
// one. Nothing signals that a goroutine has ended, so it polls.
func (r *rig) quiet() {
	r.t.Helper()
	out, stop := testkit.Limit()
	defer stop()
	for {
		calls, goroutines := r.load()
		if calls == 0 && goroutines[1] <= r.resting {
			return
		}
		select {
		case <-out:
			dump := r.goroutineDump()
			keep(r.t, "goroutines.txt", []byte(dump))
			r.t.Fatalf("%v goroutines and %d calls are left, want %d goroutines at rest; they are:\n%.20000s", goroutines, calls, r.resting, dump)
		default:
		}
	}
}

// replayOf lists what a session was sent of the thread before its settings.
func replayOf(t *testing.T, s *simulator.Session) []string {
	t.Helper()
	var items []string
	for _, record := range s.Received() {
		testkit.Equal(t, record.Refused, "", "the upstream refused %s", record.Event.Raw)
		if record.Event.Type == realtime.TypeSessionUpdate {
			break
		}
		item, err := realtime.DecodeItem(record.Event.Item)
		if err != nil {
			t.Fatalf("%s: %v", record.Event.Raw, err)
		}
		if item.Type == realtime.ItemMessage {
			items = append(items, item.Role+": "+item.Text())
		} else {
			items = append(items, strings.TrimSpace(item.Type+" "+item.Name))
		}
	}
	return items
}
