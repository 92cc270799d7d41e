package e2e

import (
	"net"
	"regexp"
	"strconv"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// freeUDPPort finds an unused port, as keptAddress does.
func freeUDPPort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := int(10_000 + ports.Add(1)%20_000)
		if conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: port}); err == nil {
			_ = conn.Close()
			return port
		}
	}
	t.Fatal("no UDP port is free")
	return 0
}

var candidatePort = regexp.MustCompile(`(?m)^a=candidate:\S+ \d+ \S+ \d+ \S+ (\d+) `)

// TestOneUDPPort has two simultaneous calls on one port.
func TestOneUDPPort(t *testing.T) {
	t.Parallel()
	takePlace(t)
	port := strconv.Itoa(freeUDPPort(t))
	r := newRig(t, rigConfig{environ: []string{"VOICEBRIDGE_UDP_PORT=" + port}})
	var answers []string
	see := func(answer string) string { answers = append(answers, answer); return answer }
	first, second := r.dial(t, request{answer: see}), r.dial(t, request{answer: see, session: asksMe})
	for _, answer := range answers {
		ports := candidatePort.FindAllStringSubmatch(answer, -1)
		for _, p := range ports {
			testkit.Equal(t, p[1], port, "candidate %q", p[0])
		}
		if len(ports) == 0 {
			t.Errorf("no candidates in %s", answer)
		}
	}
	for _, c := range []*caller{first, second} {
		c.next("bridge.ready")
	}
	inAnswer(first)
	inAnswer(second)
	first.hears(50)
	second.hears(50)
	r.over(first, "hangup")
	second.hears(50) // the end of one does not affect the other
	r.over(second, "hangup")
	r.quiet()
}

// TestSimulateApart runs the upstream in its own process, which is killed in the middle of
// an answer.
func TestSimulateApart(t *testing.T) {
	t.Parallel()
	takePlace(t)
	sim := launch(t, nil, "simulate", "--listen", "127.0.0.1:0")
	r := newRig(t, rigConfig{environ: []string{"OPENAI_BASE_URL=" + sim.url, "VOICEBRIDGE_CALLS__ANSWER=after_upstream"}}) // the last address counts
	r.another = true
	c := r.dial(t, request{session: asksMe})
	c.next("bridge.ready")
	c.speak()
	c.next(realtime.TypeOutputBufferStopped)
	c.saved("answer", says(thread.RoleAssistant, "Hello, I am the simulator."))
	c.say("Show me a chart.")
	c.next("bridge.tool.done")
	c.saved("answer", says(thread.RoleAssistant, "Here is your chart."))
	c.say("A long story, please.")
	c.wait("a piece of it", func(ev timedEvent) bool {
		return ev.Type == realtime.TypeAudioTranscriptDelta && ev.Delta == "Let me tell"
	})
	sim.kill()
	testkit.Equal(t, reasonOf(t, c.next("bridge.upstream.renewing")), "upstream_lost", "the upstream was lost because")
	c.hangUp()
	r.untilSaved(c)
	r.nothingOpen(t, c.thread)
	r.wantLike(t, c.thread, []string{
		"user voice completed: Hello, can you hear me?", "assistant voice completed: Hello, I am the simulator.…",
		"user text completed: Show me a chart.", "assistant voice …: Let me draw that for you.…[tool-create_bar_chart output-available]",
		"assistant voice …: Here is your chart.…", "user text completed: A long story, please.", "assistant voice interrupted: Let me tell…",
	})
	r.wantWords(c)
	// Nobody answers any more.
	_, status, body := r.try(t, request{thread: c.thread})
	wantRefusal(t, status, body, 502, "upstream_unreachable")
	r.quiet()
}
