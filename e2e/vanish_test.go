//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// TestBrowsersLeave has browsers that leave in every way, or do not read. It runs before
// the parallel tests: a browser that is kept waiting for 9 s
// counts as lost, and under load a machine may take that long for what must come first.
func TestBrowsersLeave(t *testing.T) {
	r := newRig(t, rigConfig{})
	t.Run("calls", func(t *testing.T) {
		for name, act := range map[string]func(*testing.T, *rig){
			"taken over": takenOver, "closed": tabClosed, "killed": browserKilled, "paused": browserPaused, "stalled": browserStalled,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				act(t, r)
			})
		}
	})
	r.quiet()
}

// takenOver calls a thread from two places.
func takenOver(t *testing.T, r *rig) {
	first := r.dial(t, request{})
	first.next("bridge.ready")
	inAnswer(first)
	_, status, body := r.try(t, request{thread: first.thread})
	wantRefusal(t, status, body, http.StatusConflict, "call_active")

	second := r.dial(t, request{thread: first.thread, takeover: true})
	testkit.Equal(t, first.ended(), "taken_over", "the first call ended because")
	r.wantWords(first)
	second.next("bridge.ready")
	first.hangUp() // already over: has no effect
	hello(second)
	replay := replayOf(t, second.session)
	r.wantLike(t, first.thread, slices.Concat(interrupted, answered))
	if diff := likeness([]string{"user: " + countPlease, "assistant: …"}, replay); diff != "" && len(replay) != 1 { // perhaps none of it was heard
		t.Errorf("replay (-want +got):\n%s", diff)
	}
	r.over(second, "hangup")
	r.over(first, "taken_over")
}

// tabClosed says goodbye in the middle of an answer.
func tabClosed(t *testing.T, r *rig) {
	c := r.dial(t, request{})
	c.next("bridge.ready")
	inAnswer(c)
	c.leave()
	r.upstreamEnded(c)
	r.over(c, "browser_closed")
	r.wantLike(t, c.thread, interrupted)
	r.wantWords(c)
}

// browserKilled has a browser killed in the middle of an answer, and one that never
// connects.
func browserKilled(t *testing.T, r *rig) {
	killed := r.dial(t, request{apart: true})
	absent := r.dial(t, request{absent: true})
	killed.next("bridge.ready")
	inAnswer(killed)
	must(t, killed.process.signal(syscall.SIGKILL))
	r.upstreamEnded(killed)
	r.over(killed, "browser_lost")
	r.wantLike(t, killed.thread, interrupted)
	r.wantWords(killed)

	r.upstreamEnded(absent)
	r.over(absent, "never_connected")
	r.wantScript(t, absent.thread)
}

// A browser may be paused for at most 9 s before it counts as lost. What is sent in that
// time is more than the buffers on the way can hold.
const (
	tries     = 8 // a busy machine may be too slow for several
	drafts    = 40
	draftSize = 100 << 10
	facts     = 42
	factSize  = 240 << 10
)

// browserPaused has a browser that stops reading for a while: drafts are dropped and
// counted, facts wait for it. A machine that is too slow for this loses the browser.
func browserPaused(t *testing.T, r *rig) {
	for range tries {
		if paused(t, r) {
			return
		}
	}
	t.Error("every browser was lost")
}

// paused reports whether the browser was not lost.
func paused(t *testing.T, r *rig) bool {
	c := r.dial(t, request{apart: true})
	c.next("bridge.ready")
	must(t, c.process.signal(syscall.SIGSTOP))
	pad := strings.Repeat("x", draftSize)
	for i := range drafts {
		c.session.Inject(fmt.Appendf(nil, `{"type":"response.hologram.delta","n":%d,"pad":%q}`, i, pad))
	}
	for i := range drafts {
		c.session.Inject(fmt.Appendf(nil, `{"type":"response.hologram.done","n":%d}`, i))
	}
	// A turn that is in the thread came after all of them.
	c.session.SimulateSpeech()
	lost := false
	testkit.Eventually(t, "an answer that is saved", func() bool {
		lost = len(r.rows(t, fmt.Sprintf("SELECT id FROM calls WHERE id = '%s' AND ended_at IS NOT NULL", c.id))) > 0
		return lost || slices.ContainsFunc(r.messages(t, c.thread), says(thread.RoleAssistant, spokenAnswer))
	})
	if lost {
		return false
	}
	must(t, c.process.signal(syscall.SIGCONT))
	c.next(realtime.TypeOutputBufferStopped)
	c.saved("answer", says(thread.RoleAssistant, spokenAnswer))
	hello(c)
	seen := map[string][]int{}
	for _, ev := range c.all() {
		var e struct{ N int }
		if err := json.Unmarshal(ev.Raw, &e); err == nil && strings.Contains(ev.Type, "hologram") {
			seen[ev.Type] = append(seen[ev.Type], e.N)
		}
	}
	if got := seen["response.hologram.done"]; len(got) != drafts || !slices.IsSorted(got) {
		t.Errorf("facts %v, want %d in order", got, drafts)
	}
	got := seen["response.hologram.delta"]
	if len(got) == 0 || len(got) == drafts || !slices.IsSorted(got) {
		t.Errorf("drafts %v, want some of %d in order", got, drafts)
	}
	if dropped := int(r.metrics()["voicebridge_drafts_dropped_total"]); dropped < drafts-len(got) {
		t.Errorf("%d drafts were counted as dropped, want %d", dropped, drafts-len(got))
	}
	r.over(c, "hangup")
	r.wantScript(t, c.thread, append([]string{spokenTurn, "assistant voice completed: " + spokenAnswer}, answered...)...)
	return true
}

// browserStalled has a browser that stops reading while there is more to send than can be
// buffered.
func browserStalled(t *testing.T, r *rig) {
	for range tries {
		c := r.dial(t, request{apart: true})
		c.next("bridge.ready")
		hello(c)
		must(t, c.process.signal(syscall.SIGSTOP))
		c.session.SimulateSpeech()
		fact := fmt.Appendf(nil, `{"type":"response.hologram.done","pad":%q}`, strings.Repeat("x", factSize))
		for range facts {
			c.session.Inject(fact)
		}
		r.upstreamEnded(c)
		c.hangUp()
		r.untilSaved(c)
		want := append(slices.Clone(answered), "user voice …")
		got := r.script(t, c.thread)
		testkit.Equal(t, likeness(want, got[:min(len(got), len(want))]), "", "thread")
		r.nothingOpen(t, c.thread)
		reason := r.rows(t, fmt.Sprintf("SELECT end_reason FROM calls WHERE id = '%s'", c.id))
		if slices.Equal(reason, []string{"browser_stalled"}) {
			return
		}
		if !slices.Equal(reason, []string{"browser_lost"}) {
			t.Fatalf("the call ended because of %q", reason)
		}
	}
	t.Error("no call ended because of browser_stalled")
}

// TestShutdown stops the process while calls are in every state.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	idle, speaking, waiting := r.dial(t, request{}), r.dial(t, request{}), r.dial(t, request{session: asksMe})
	hearing, apart, early := r.dial(t, request{}), r.dial(t, request{apart: true}), r.dial(t, request{faults: simulator.Faults{MuteUpdates: true}})
	for _, c := range []*caller{idle, speaking, waiting, hearing, apart} {
		c.next("bridge.ready")
	}
	waiting.say(waitPlease)
	waiting.next("bridge.tool.started")
	inAnswer(speaking)
	hearing.session.SimulateSpeech()
	hearing.next(realtime.TypeInputCommitted)
	early.next(realtime.TypeSessionCreated)
	testkit.Equal(t, r.terminate(), 0, "exit code")
	for _, c := range []*caller{idle, speaking, waiting, hearing, apart, early} {
		testkit.Equal(t, c.ended(), "shutdown", "a call ended because")
		r.upstreamEnded(c)
	}
	r.start() // to read what is there, and to save what a slow database has not taken before
	for _, c := range []*caller{idle, speaking, waiting, hearing, apart, early} {
		r.wantLeft(c, "shutdown")
	}
	r.wantScript(t, idle.thread)
	r.wantScript(t, early.thread)
	r.wantLike(t, speaking.thread, interrupted)
	r.wantWords(speaking)
	r.wantLike(t, waiting.thread, []string{"user text completed: " + waitPlease, "assistant voice …: Wait.[dynamic-tool output-error]"})
	if got := r.script(t, hearing.thread); len(got) == 0 || !strings.HasPrefix(got[0], "user voice ") {
		t.Errorf("thread %q", got)
	}
}
