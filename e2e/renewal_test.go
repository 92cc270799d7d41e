package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// callRenewals is how many renewals one call goes through: it does not survive more than
// six losses in ten minutes.
const callRenewals = 5

// Sessions that are renewed on time are so some seconds after they began. They would go on for
// a minute, in which even a slow machine prepares the next one: their end would count as a loss.
const (
	renewedLength = 65 * time.Second
	renewedEarly  = "VOICEBRIDGE_CALLS__RENEW_BEFORE_MINUTES=1"
)

// arrivals records when packets of callers arrive at the upstream's sessions.
type arrivals struct {
	mu sync.Mutex
	at map[string][]time.Time // by session
}

func (a *arrivals) drive(s *simulator.Session) media.Sink {
	return arrivalsOf{a, s.ID()}
}

type arrivalsOf struct {
	*arrivals
	session string
}

func (a arrivalsOf) WriteAudio(*media.Packet) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[a.session] = append(a.at[a.session], time.Now())
	return nil
}

// gap is the largest interval between two of the sorted times, from one moment to another.
func gap(times []time.Time, from, to time.Time) time.Duration {
	var largest time.Duration
	for i := 1; i < len(times); i++ {
		if !times[i].Before(from) && !times[i-1].After(to) {
			largest = max(largest, times[i].Sub(times[i-1]))
		}
	}
	return largest
}

// percentiles describes durations in words.
func percentiles(of []time.Duration) string {
	if len(of) == 0 {
		return "none"
	}
	slices.Sort(of)
	at := func(share float64) time.Duration {
		return of[int(math.Ceil(share*float64(len(of))))-1].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, largest %v of %d", at(0.5), at(0.99), of[len(of)-1].Round(time.Millisecond), len(of))
}

const (
	recallPlease = "What did I say before?"
	recalled     = "You said: "
)

// recallScript is rigScript with a model that is asked what it knows.
func recallScript() *simulator.Script {
	script := rigScript()
	script.Typed = append(script.Typed, simulator.Rule{
		Match: regexp.MustCompile("^" + regexp.QuoteMeta(recallPlease) + "$"), Reply: simulator.Reply{Say: recalled + "{previous}"},
	})
	return script
}

// current returns the current upstream session of a call.
func (r *rig) current(t *testing.T, call string) *simulator.Session {
	t.Helper()
	ids := r.rows(t, fmt.Sprintf("SELECT upstream_id FROM upstream_legs WHERE call_id = '%s' ORDER BY generation DESC", call))
	for _, s := range r.sim.Sessions() {
		if len(ids) > 0 && s.ID() == ids[0] {
			return s
		}
	}
	t.Fatalf("no upstream session of %s among %q", call, ids)
	return nil
}

// liveCall returns the id of the only call that goes on.
func (r *rig) liveCall(t *testing.T) string {
	t.Helper()
	live := r.rows(t, "SELECT id FROM calls WHERE ended_at IS NULL")
	if len(live) != 1 {
		t.Fatalf("%d calls go on, want one; those that ended: %q", len(live),
			r.rows(t, "SELECT id, started_at, ended_at, end_reason FROM calls WHERE ended_at IS NOT NULL ORDER BY started_at"))
	}
	return live[0]
}

// renewedCall is a call whose upstream session is replaced again and again.
type renewedCall struct {
	*caller
	sudden bool
	rng    *rand.Rand
	typed  []string
	lost   []time.Duration // how long the caller was not heard, for each loss
}

// tell types a text.
func (c *renewedCall) tell(text string) {
	c.typed = append(c.typed, text)
	c.say(text)
}

// talk types, has the upstream replaced at some moment, and asks the model for a word from
// before.
func (c *renewedCall) talk(number, n int) {
	recalls := map[string]bool{} // the answers to the question, by message
	for i := range n {
		word := fmt.Sprintf("Echo: %d-%d", number, i)
		draws := i%2 == 1
		if draws {
			word = chartPlease
		}
		c.tell(word)
		if c.sudden {
			<-time.After(time.Duration(c.rng.IntN(300)) * time.Millisecond)
			session := c.rig.current(c.t, c.id)
			[]func(){session.Drop, session.Expire}[i/2%2]()
		}
		ev := c.next("bridge.upstream.renewed")
		var renewed struct {
			Reason string
			GapMS  int64 `json:"gap_ms"`
		}
		if err := json.Unmarshal(ev.Raw, &renewed); err != nil || (renewed.Reason == "planned") == c.sudden {
			c.t.Errorf("%s: %v", ev.Raw, err)
		}
		if draws {
			c.until("a chart for each time that one was asked for", func() bool { return c.drawn() > i/2 })
		}
		c.lost = append(c.lost, time.Duration(renewed.GapMS)*time.Millisecond)
		c.tell(recallPlease)
		c.saved("what the model knows of "+word, func(m thread.Message) bool {
			isNew := says(thread.RoleAssistant, recalled+word)(m) && !recalls[m.ID]
			recalls[m.ID] = recalls[m.ID] || isNew
			return isNew
		})
	}
}

// drawn counts the charts. It is called with c.mu held.
func (c *renewedCall) drawn() int {
	n := 0
	for _, ev := range c.events {
		if ev.Type == "bridge.tool.done" {
			n++
		}
	}
	return n
}

// check compares the database with what was said and shown.
func (c *renewedCall) check() {
	t := c.t
	c.mu.Lock()
	states, breaks := slices.Clone(c.states), c.breaks
	c.mu.Unlock()
	if len(breaks) > 0 {
		t.Errorf("the audio is not one stream: %q", breaks)
	}
	if !slices.Equal(states, []media.State{media.StateConnected}) {
		t.Errorf("the browser's connection was in the states %v", states)
	}
	c.rig.over(c.caller, "hangup")
	var typed []string
	items := map[string]int{}
	for _, m := range c.rig.messages(t, c.thread) {
		if m.Role == thread.RoleUser {
			typed = append(typed, m.Text())
		}
		items[m.Metadata.ItemID]++
	}
	if !slices.Equal(typed, c.typed) {
		t.Errorf("typed was %q, the thread has %q", c.typed, typed)
	}
	shown := 0
	for _, ev := range c.all() {
		if ev.Type != realtime.TypeItemDone {
			continue
		}
		it, err := realtime.DecodeItem(ev.Item)
		if err == nil && it.Type == realtime.ItemMessage && it.Role == "assistant" && it.Status == "completed" {
			if shown++; items[it.ID] != 1 {
				t.Errorf("the answer %s %q is in the thread %d times", it.ID, it.Text(), items[it.ID])
			}
		}
	}
	if shown < len(c.typed)/2 {
		t.Errorf("%d texts, %d whole answers", len(c.typed), shown)
	}
	of := func(table, columns string) []string {
		return c.rig.rows(t, fmt.Sprintf("SELECT %s FROM %s WHERE call_id = '%s'", columns, table, c.id))
	}
	charts := of("tool_calls", "name, status")
	for _, row := range charts {
		if row != "create_pie_chart | done" {
			t.Errorf("tool call %s", row)
		}
	}
	asked := len(slices.DeleteFunc(slices.Clone(c.typed), func(text string) bool { return text != chartPlease }))
	if len(charts) != asked {
		t.Errorf("%d charts were requested, %d were drawn", asked, len(charts))
	}
	testkit.Eventually(t, "upstream sessions that are all hung up", func() bool {
		return !slices.Contains(of("upstream_legs", "CASE WHEN hung_up_at IS NULL THEN 'open' ELSE 'hung up' END"), "open")
	})
}

// distances are the largest intervals between two packets arriving at the caller, and
// between two arriving at the upstream, around each replacement of a session by one
// prepared beside it.
func (c *renewedCall) distances(a *arrivals) (down, up []time.Duration) {
	const around = 500 * time.Millisecond
	var all []time.Time
	for _, id := range c.rig.rows(c.t, fmt.Sprintf("SELECT upstream_id FROM upstream_legs WHERE call_id = '%s'", c.id)) {
		a.mu.Lock()
		all = append(all, a.at[id]...)
		a.mu.Unlock()
	}
	slices.SortFunc(all, time.Time.Compare)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.events {
		if ev.Type == "bridge.upstream.renewed" {
			from, to := ev.at.Add(-around), ev.at.Add(around)
			down = append(down, gap(c.soundAt, from, to))
			up = append(up, gap(all, from, to))
		}
	}
	return down, up
}

// renew runs several calls at a time until so many upstream sessions were replaced, on time or after a loss.
func renew(t *testing.T, renewals int, sudden bool) {
	t.Helper()
	length, environ := renewedLength, []string{renewedEarly}
	if sudden {
		length, environ = time.Hour, nil
	}
	heard := &arrivals{at: map[string][]time.Time{}}
	r := newRig(t, rigConfig{database: persistencetest.PostgresURL(t), environ: environ, simulator: simulator.Config{
		MaxDuration: length, Script: recallScript(), Continuous: true, Drive: heard.drive,
	}})
	var mu sync.Mutex
	var down, up, lost []time.Duration
	places := make(chan struct{}, 5) // limits simultaneous calls
	t.Run("calls", func(t *testing.T) {
		for number := range (renewals + callRenewals - 1) / callRenewals {
			t.Run(fmt.Sprint(number+1), func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				c := &renewedCall{caller: r.dial(t, request{}), sudden: sudden, rng: rand.New(rand.NewPCG(1, uint64(number)))}
				c.sendSilence(c.peer.WriteAudio)
				c.next("bridge.ready")
				c.talk(number, min(callRenewals, renewals-number*callRenewals))
				c.check()
				d, u := c.distances(heard)
				mu.Lock()
				defer mu.Unlock()
				down, up, lost = append(down, d...), append(up, u...), append(lost, c.lost...)
			})
		}
	})
	event := map[bool]string{true: "renewed_lost", false: "renewed_planned"}[sudden]
	if n := r.metrics()[fmt.Sprintf("voicebridge_call_events_total{event=%q}", event)]; n < float64(renewals) {
		t.Errorf("%s was counted %v times", event, n)
	}
	if sudden {
		t.Logf("the caller was not heard for: %s", percentiles(lost))
	} else {
		t.Logf("largest interval between two packets around a renewal, to the browser: %s; to the upstream: %s", percentiles(down), percentiles(up))
	}
	r.quiet()
}

// TestRenewals talks through sessions that are replaced on time, and through some that are lost at any moment.
func TestRenewals(t *testing.T) {
	t.Parallel()
	for name, sudden := range map[string]bool{"planned": false, "sudden": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renew(t, 3, sudden)
		})
	}
}
