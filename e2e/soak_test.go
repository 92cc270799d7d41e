package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// `make soak` sets these; the defaults are for every run of the tests.
var (
	soakFor   = flag.Duration("soak.for", 2*time.Minute, "how long TestSoak goes on")
	soakCalls = flag.Int("soak.calls", 6, "how many calls TestSoak holds at a time")
	soakSeed  = flag.Uint64("soak.seed", 0, "what TestSoak does; 0 chooses one and prints it")
)

// soakPace is that of a calm conversation: there is always an answer that a fault can
// interrupt.
var soakPace = simulator.Pace{Think: 100 * time.Millisecond, Step: 20 * time.Millisecond, Transcript: 200 * time.Millisecond}

// unsaved is how long before it was killed the program may have shown something unsaved,
// on a busy machine: a transaction may take 1 s before its changes, and those waiting, go
// to the spool. If something later of the same thread was saved, there is no such excuse.
const unsaved = 5 * time.Second

// soak is a period of calls under random faults.
type soak struct {
	*rig
	base   string // the program's address, which stays the same
	server *persistencetest.Server
	seed   uint64
	stop   chan struct{}

	mu       sync.Mutex
	kills    []time.Time // when the program was killed
	timeline []event     // the faults, and recoveries
	faults   map[string]int
}

// event is something that happened to the program, or that somebody did.
type event struct {
	at   time.Time
	what string
}

// TestSoak makes calls for a while: people type, speak and ask for charts, reload the
// page, hang up and call again, over paths that lose and reorder packets. Meanwhile
// upstream sessions are dropped and expire, the upstream refuses calls, the database
// crashes, and the program is killed. Afterwards each thread is compared with what its
// caller was told: nothing is lost, duplicated or out of order. A failure first says what
// was expected and what was found; logs come last. It takes longest, so it begins before
// the parallel tests and ends beside them.
func TestSoak(t *testing.T) {
	seed := cmp.Or(*soakSeed, rand.Uint64())
	t.Logf("-soak.for %v -soak.calls %d -soak.seed %d", *soakFor, *soakCalls, seed)
	server := persistencetest.NewServer(t)
	s := &soak{server: server, seed: seed, stop: make(chan struct{}), faults: map[string]int{}, rig: newRig(t, rigConfig{
		database: server.URL(), simulator: simulator.Config{Pace: soakPace},
		environ: []string{"VOICEBRIDGE_CALLS__GRACE_SECONDS=10", "VOICEBRIDGE_CALLS__RENEW_BEFORE_MINUTES=59"},
	})}
	s.base = s.url
	before := s.metrics()
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
		s.disturb(rand.New(rand.NewPCG(seed, 0)))
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
	s.quiet()
	after := s.metrics()
	t.Logf("faults %v", s.faults)
	t.Logf("ledger: %+v", total)
	t.Logf("heap of the process: %.1f MB at the start, %.1f MB at the end", before["go_memstats_heap_inuse_bytes"]/1e6, after["go_memstats_heap_inuse_bytes"]/1e6)
	if total.Texts == 0 || total.Answers == 0 {
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
		{"session dropped", 8, s.session((*simulator.Session).Drop)},
		{"session expired", 8, s.session((*simulator.Session).Expire)},
		{"somebody speaks", 16, s.session((*simulator.Session).SimulateSpeech)},
		{"upstream refuses", 3, s.refuse},
		{"database crashed", 2, s.crashDatabase},
		{"program killed", 2, s.killProgram},
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
				s.note(k.name)
				k.do(rng)
				break
			}
		}
	}
}

// session does something to a live session of the upstream.
func (s *soak) session(do func(*simulator.Session)) func(*rand.Rand) {
	return func(rng *rand.Rand) {
		var live []*simulator.Session
		for _, ses := range s.sim.Sessions() {
			select {
			case <-ses.Done():
			default:
				live = append(live, ses)
			}
		}
		if len(live) > 0 {
			do(live[rng.IntN(len(live))])
		}
	}
}

// refuse has the upstream refuse new sessions for a while.
func (s *soak) refuse(rng *rand.Rand) {
	s.rig.faults.Store(&simulator.Faults{RefuseStatus: 503})
	s.pass(time.Duration(500+rng.IntN(2000)) * time.Millisecond)
	s.rig.faults.Store(&simulator.Faults{})
}

func (s *soak) crashDatabase(rng *rand.Rand) {
	s.server.Crash()
	s.pass(time.Duration(500+rng.IntN(4000)) * time.Millisecond)
	s.server.Start()
	s.note("database is back")
}

func (s *soak) killProgram(rng *rand.Rand) {
	s.mu.Lock()
	s.kills = append(s.kills, time.Now())
	s.mu.Unlock()
	s.kill()
	s.pass(time.Duration(rng.IntN(1000)) * time.Millisecond)
	s.start()
	s.note("program is back")
}

// note records an event.
func (s *soak) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeline = append(s.timeline, event{time.Now(), what})
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

// justBefore returns the moment at which the program was killed soon after another one.
func (s *soak) justBefore(at time.Time) (killed time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, killed := range s.kills {
		if d := killed.Sub(at); d > -time.Second && d < unsaved {
			return killed, true
		}
	}
	return time.Time{}, false
}

// allOver waits until nothing is going on, neither here nor at the upstream.
func (s *soak) allOver() {
	s.t.Helper()
	limit := time.After(patience)
	for _, ses := range s.sim.Sessions() {
		select {
		case <-ses.Done():
		case <-limit:
			s.t.Fatalf("-soak.seed %d: want all of the upstream's sessions ended, %s goes on", s.seed, ses.ID())
		}
	}
	again := time.Tick(100 * time.Millisecond)
	for {
		var open []string
		for _, from := range []string{
			"calls WHERE ended_at IS NULL", "upstream_legs WHERE hung_up_at IS NULL", "messages WHERE status = 'in_progress'",
			"tool_calls WHERE status = 'running'", "responses WHERE status = 'in_progress'",
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
		case <-limit:
			s.t.Fatalf("-soak.seed %d: want all closed in the database, %d rows are open:\n%s", s.seed, len(open), strings.Join(open, "\n"))
		}
	}
}

// tally counts the entries of a ledger.
type tally struct{ Texts, Unconfirmed, Answers, Spoken, Charts, Messages, Calls, Reloads int }

func (t *tally) add(o tally) {
	t.Texts += o.Texts
	t.Unconfirmed += o.Unconfirmed
	t.Answers += o.Answers
	t.Spoken += o.Spoken
	t.Charts += o.Charts
	t.Messages += o.Messages
	t.Calls += o.Calls
	t.Reloads += o.Reloads
}

func (t tally) String() string {
	return fmt.Sprintf("%d texts (%d not confirmed), %d answers, %d spoken turns, %d charts in %d messages; %d calls, %d reloads",
		t.Texts, t.Unconfirmed, t.Answers, t.Spoken, t.Charts, t.Messages, t.Calls, t.Reloads)
}
