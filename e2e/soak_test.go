//go:build nightly

package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/llm/llmtest/speechtest"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// `make soak` sets these; the defaults are those of `make test-all`.
var (
	soakFor    = flag.Duration("soak.for", 10*time.Minute, "how long TestSoak goes on")
	soakCalls  = flag.Int("soak.calls", 3, "how many calls TestSoak holds at a time on each engine")
	soakSeed   = flag.Uint64("soak.seed", 0, "what TestSoak does; 0 chooses one and prints it")
	soakEngine = flag.String("soak.engine", "", "the only engine of TestSoak, sqlite or postgres; empty: both")
	// A cascade does not choose its sessions' ends, so its soak has other faults.
	soakCascade = flag.Bool("soak.cascade", false, "whether the calls of TestSoak go to a text model over servers for speech")
)

// soakPace is that of a calm conversation: there is always an answer that a fault can
// interrupt.
var soakPace = simulator.Pace{Think: 100 * time.Millisecond, Step: 20 * time.Millisecond, Transcript: 200 * time.Millisecond}

// unsaved is how long before it was killed a process may have passed on words that are not
// saved yet: partial words are saved each 650 ms, gathered for up to 250 ms more, and go to the spool when a transaction
// takes a second, all a little later on a busy machine.
const unsaved = 2500 * time.Millisecond

// soak is a period of calls under random faults.
type soak struct {
	*rig     // of the first machine
	machines []*machine
	leave    func() (comeBack func()) // takes the database away
	name     string                   // the flags that repeat it
	seed     uint64
	stop     chan struct{}
	servers  *speechServers // of a cascade; nil if there is none

	mu       sync.Mutex
	timeline []event // the faults, and recoveries
	faults   map[string]int
}

// machine runs one process after the other, at the same address and in the same folder.
type machine struct {
	*rig
	life atomic.Pointer[life] // of the present process or, if there is none, of the next one
}

// life is that of a process.
type life struct {
	ended  time.Time
	killed bool // rather than told to stop
}

// event is something that happened to the program, or that somebody did.
type event struct {
	at   time.Time
	what string
}

// TestSoak makes calls for a while, to one process on SQLite and to two on PostgreSQL:
// people type, speak, ask for charts and send texts by HTTP, into the queue or not, in
// their calls and between them; they reload the page, hang up and call again, by WebRTC over paths
// that lose and reorder packets or by WebSocket, with an upstream of either transport. Meanwhile upstream
// sessions are dropped and expire, the upstreams refuse calls, one of them is out of order so that the other
// takes over, the database goes away, and processes are killed and stopped, also while it is away. Afterwards each thread is compared with what its caller did and
// was told: nothing is lost, duplicated or out of order. A failure first says what was
// expected and what was found; logs come last. It takes longest, so it begins before the
// parallel tests and ends beside them.
func TestSoak(t *testing.T) {
	seed := cmp.Or(*soakSeed, rand.Uint64())
	for _, engine := range []string{"sqlite", "postgres"} {
		if *soakEngine == "" || *soakEngine == engine {
			t.Run(engine, func(t *testing.T) { newSoak(t, engine, seed).run() })
		}
	}
	t.Parallel()
}

// newSoak starts the processes, but no calls.
func newSoak(t *testing.T, engine string, seed uint64) *soak {
	t.Helper()
	s := &soak{
		name: fmt.Sprintf("-soak.for %v -soak.calls %d -soak.engine %s -soak.cascade=%v -soak.seed %d", *soakFor, *soakCalls, engine, *soakCascade, seed),
		seed: seed, stop: make(chan struct{}), faults: map[string]int{},
	}
	t.Log(s.name)
	cfg := rigConfig{simulator: simulator.Config{Pace: soakPace}, upstreams: "[" + bySocket + "," + byWebRTC + "]", environ: []string{
		"VOICEBRIDGE_CALLS__GRACE_SECONDS=10", "VOICEBRIDGE_CALLS__CLOSE_GRACE_SECONDS=8", "VOICEBRIDGE_CALLS__RENEW_BEFORE_MINUTES=59",
		"VOICEBRIDGE_TEXT_PROVIDER=simulator", "VOICEBRIDGE_SHUTDOWN_SECONDS=4",
	}}
	if *soakCascade {
		s.servers = newSpeechServers(t)
		cfg.upstreams = "[" + s.servers.upstream() + "]"
	}
	if engine == "sqlite" {
		cfg.database = persistencetest.SQLiteURL(t)
		s.leave = func() func() { return persistencetest.LockSQLite(t, cfg.database) }
	} else {
		server := persistencetest.NewServer(t)
		cfg.database = server.URL()
		s.leave = func() func() { server.Crash(); return server.Start }
	}
	s.rig = newRig(t, cfg)
	s.machines = []*machine{{rig: s.rig}}
	if engine == "postgres" && seed != 7 {
		r := s.rig
		second := &rig{t: t, ctx: r.ctx, database: r.database, dir: r.dir, address: keptAddress(t), environ: r.environ, sim: r.sim, api: r.api}
		if seed%2 == 1 { // else both keep their spools in one folder
			second.dir = t.TempDir()
		}
		second.start()
		s.machines = append(s.machines, &machine{rig: second})
	}
	for _, m := range s.machines {
		m.life.Store(new(life))
	}
	return s
}

// run has people call while faults happen, and compares what they were told with the threads.
func (s *soak) run() {
	t, before := s.t, s.metrics()
	var wg sync.WaitGroup
	people := make([]*person, *soakCalls)
	for i := range people {
		people[i] = newPerson(t, s, i)
		wg.Go(people[i].live)
	}
	stop := sync.OnceFunc(func() { close(s.stop); wg.Wait() })
	defer stop()
	undisturbed := make(chan struct{})
	go func() {
		defer close(undisturbed) // even if a fault could not be made
		s.disturb(rand.New(rand.NewPCG(s.seed, 0)))
		stop() // it may be long until it is this test's turn
	}()
	t.Parallel()
	<-undisturbed
	stop()
	s.allOver()
	total := tally{}
	for _, p := range people {
		total.add(p.check())
	}
	if t.Failed() {
		keep(t, "timeline.txt", []byte(s.happened(time.Time{}, time.Now())))
	}
	for _, m := range s.machines {
		m.quiet()
	}
	after := s.metrics()
	t.Logf("%s\nfaults: %v\nledger: %+v", s.name, s.faults, total)
	t.Logf("heap of the process: %.1f MB at the start, %.1f MB at the end", before["go_memstats_heap_inuse_bytes"]/1e6, after["go_memstats_heap_inuse_bytes"]/1e6)
	if min(total.Typed, total.Posted, total.Queued, total.Answers) == 0 {
		t.Error("nothing was said or nothing was answered")
	}
}

// disturb causes faults until the time is up.
func (s *soak) disturb(rng *rand.Rand) {
	end := time.After(*soakFor)
	kinds := []struct {
		name   string
		weight int
		do     func(*rand.Rand)
	}{
		{"session dropped", 6, s.session((*simulator.Session).Drop)},
		{"session expired", 6, s.session((*simulator.Session).Expire)},
		{"somebody speaks", 16, s.session((*simulator.Session).SimulateSpeech)},
		{"upstream refuses", 2, s.refuse},
		{"one upstream out of order", 4, s.breakDown},
		{"database away", 2, s.fault(true, nil)},
		{"killed", 3, s.fault(false, s.kill)},
		{"killed without the database", 3, s.fault(true, s.kill)},
		{"stopped", 1, s.fault(false, s.terminate)},
		{"stopped without the database", 2, s.fault(true, s.terminate)},
	}
	if s.servers != nil {
		kinds = append(kinds[5:], kinds[:2]...)
		kinds[len(kinds)-2].name, kinds[len(kinds)-2].do = "servers for speech away", s.silenceServers(http.StatusServiceUnavailable)
		kinds[len(kinds)-1].name, kinds[len(kinds)-1].do = "servers for speech cut off", s.silenceServers(0)
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	for {
		select {
		case <-end:
			return
		case <-time.After(time.Duration(200+rng.IntN(1200)) * time.Millisecond):
		}
		n := rng.IntN(sum)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				s.faults[k.name]++
				s.note("%s", k.name)
				k.do(rng)
				break
			}
		}
	}
}

// live returns the upstream's live sessions.
func (s *soak) live() (live []*simulator.Session) {
	for _, ses := range s.sim.Sessions() {
		select {
		case <-ses.Done():
		default:
			live = append(live, ses)
		}
	}
	return live
}

// session does something to a live session of the upstream.
func (s *soak) session(do func(*simulator.Session)) func(*rand.Rand) {
	return func(rng *rand.Rand) {
		chosen := rng.IntN(1 << 20)
		if live := s.live(); len(live) > 0 {
			do(live[chosen%len(live)])
		}
	}
}

// speechServers are the servers of a cascade, of which a test says when they do not answer.
type speechServers struct {
	*httptest.Server

	status atomic.Int64 // that they answer; -1 cuts connections off, 0 is as usual
}

func newSpeechServers(t *testing.T) *speechServers {
	s := &speechServers{}
	to, err := url.Parse(speechtest.New(t).URL)
	must(t, err)
	to.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the program has left
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch status := int(s.status.Load()); status {
		case 0:
			proxy.ServeHTTP(w, r)
		case -1:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// upstream is the setting of a cascade with these servers.
func (s *speechServers) upstream() string {
	return fmt.Sprintf(`{"name":"cascade","profile":"cascade","cascade":{"stt":{"url":"%s/v1","model":"whisper"},"tts":{"url":"%[1]s/v1","model":"pcm","voice":"alloy"}}}`, s.URL)
}

// silenceServers has the servers for speech answer with a status for a while, or cut connections off if that is 0.
func (s *soak) silenceServers(status int64) func(*rand.Rand) {
	return func(rng *rand.Rand) {
		s.servers.status.Store(cmp.Or(status, -1))
		s.pass(time.Duration(500+rng.IntN(3000)) * time.Millisecond)
		s.servers.status.Store(0)
	}
}

// refuse has the upstream refuse new sessions for a while.
func (s *soak) refuse(rng *rand.Rand) {
	s.rig.faults.Store(&simulator.Faults{RefuseStatus: 503})
	s.pass(time.Duration(500+rng.IntN(2000)) * time.Millisecond)
	s.rig.faults.Store(&simulator.Faults{})
}

// breakDown has the sessions of all upstreams end, and one of them out of order for a while: the other one takes over.
func (s *soak) breakDown(rng *rand.Rand) {
	path := []string{"/v1/realtime", "/v1/realtime/calls"}[rng.IntN(2)]
	s.down.Store(&path)
	for _, ses := range s.live() {
		ses.Drop()
	}
	s.pass(time.Duration(1000+rng.IntN(2000)) * time.Millisecond)
	s.down.Store(nil)
}

// fault takes the database away for a while, ends the processes of some machines, or does
// both: then the processes end with words in their spools, and start again once the database
// is back. A machine that goes on may meanwhile take the next calls of their threads.
func (s *soak) fault(away bool, end func(m *machine, away bool)) func(*rand.Rand) {
	return func(rng *rand.Rand) {
		order, ending := rng.Perm(len(s.machines)), 1+rng.IntN(len(s.machines))
		asked, said, late, rest := rng.IntN(500), rng.IntN(4000), rng.IntN(1500), rng.IntN(6000)
		comeBack := func() {}
		if away {
			// What the upstream is asked just before, it answers just after.
			answer := make(chan struct{})
			for _, ses := range s.live() {
				ses.Do(func() { <-answer })
			}
			s.pass(time.Duration(asked) * time.Millisecond)
			comeBack = s.leave()
			close(answer)
			s.pass(time.Duration(500+said) * time.Millisecond)
		}
		if end == nil {
			order = nil
		} else if order = order[:ending]; ending == len(s.machines) {
			rest /= 6
		}
		for _, i := range order {
			end(s.machines[i], away)
		}
		if away {
			s.pass(time.Duration(late) * time.Millisecond)
			comeBack()
			s.note("the database is back")
		}
		if len(order) > 0 {
			s.pass(time.Duration(rest) * time.Millisecond)
		}
		for _, i := range order {
			s.machines[i].launch()
			s.note("machine %d is back", i)
		}
	}
}

// kill ends a machine's process as a power failure would.
func (s *soak) kill(m *machine, _ bool) {
	*m.life.Load() = life{ended: time.Now(), killed: true}
	m.kill()
	s.faults["processes killed"]++
	m.life.Store(new(life))
}

// terminate tells a machine's process to stop. Without the database it may not end everything
// in time: then its exit code is 1.
func (s *soak) terminate(m *machine, away bool) {
	*m.life.Load() = life{ended: time.Now()}
	if code := m.terminate(); code != 0 && !(away && code == 1) {
		s.t.Errorf("exit code %d of a process that was told to stop", code)
	}
	m.life.Store(new(life))
}

// note records an event.
func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeline = append(s.timeline, event{time.Now(), fmt.Sprintf(format, args...)})
}

// happened lists the events of a period.
func (s *soak) happened(from, to time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return listed(s.timeline, from, to)
}

// listed is the events of a period, one per line.
func listed(events []event, from, to time.Time) string {
	var b strings.Builder
	for _, e := range events {
		if e.at.After(from) && e.at.Before(to) {
			fmt.Fprintf(&b, "  %s %s\n", clock(e.at), e.what)
		}
	}
	return b.String()
}

// clock formats times as the program's log does.
func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// pass waits for the duration of a fault.
func (s *soak) pass(d time.Duration) { <-time.After(d) }

// allOver waits until nothing is going on, neither here nor at the upstream.
func (s *soak) allOver() {
	s.t.Helper()
	out, stop := testkit.Limit()
	defer stop()
	for _, ses := range s.sim.Sessions() {
		select {
		case <-ses.Done():
		case <-out:
			s.t.Fatalf("%s: want all of the upstream's sessions ended, %s goes on", s.name, ses.ID())
		}
	}
	again := time.Tick(100 * time.Millisecond)
	for {
		var open []string
		for _, from := range []string{
			"calls WHERE ended_at IS NULL", "upstream_legs WHERE hung_up_at IS NULL", "messages WHERE status = 'in_progress'",
			"tool_calls WHERE status = 'running'", "responses WHERE status = 'in_progress'", "queued_messages WHERE state <> 'sent'",
		} {
			for _, row := range s.rows(s.t, "SELECT * FROM "+from) {
				open = append(open, fmt.Sprintf("%s: %.300s", from, row))
			}
		}
		if len(open) == 0 {
			return
		}
		select {
		case <-again:
		case <-out:
			s.t.Fatalf("%s: want all closed in the database, %d rows are open:\n%s", s.name, len(open), strings.Join(open, "\n"))
		}
	}
}

// tally counts the entries of a ledger, and what is wrong.
type tally struct {
	Typed, Posted, Queued, Unconfirmed, Answers, Spoken, Charts, Messages, Calls, Reloads, Sockets, Renewals, Takeovers int

	Lost, Doubled, Misplaced int
}

func (t *tally) add(o tally) {
	sum, other := reflect.ValueOf(t).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + other.Field(i).Int())
	}
}
