//go:build unix

package e2e

import (
	"errors"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// TestShutdownFinishes stops the process while the transcript of a spoken turn is still on
// its way, while a call waits for its browser, and while the upstream is slow to hang up.
// New work is refused, what was said gets its transcript, and the exit code is 0.
func TestShutdownFinishes(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	words := simulator.Pace{Think: quick.Think, Step: quick.Step, Transcript: 500 * time.Millisecond}
	r := newRig(t, rigConfig{environ: waiting, simulator: simulator.Config{Pace: words}})
	r.holding.Store(&held)
	spoken, away := r.dial(t, request{}), r.dial(t, request{})
	spoken.next("bridge.ready")
	away.next("bridge.ready")
	away.away()
	spoken.session.SimulateSpeech()
	spoken.next(realtime.TypeInputCommitted)

	r.mine = true // the test stops it itself
	must(t, r.cmd.Process.Signal(syscall.SIGTERM))
	testkit.Eventually(t, "a server that is not ready", func() bool { return r.do(t, http.MethodGet, "/readyz", "", "").status == http.StatusServiceUnavailable })
	_, status, body := r.try(t, request{})
	wantRefusal(t, status, body, http.StatusServiceUnavailable, "shutting_down")
	close(held)
	testkit.Receive(t, "the end of the process", r.ended)
	testkit.Equal(t, r.cmd.ProcessState.ExitCode(), 0, "exit code")
	r.wantLeft(spoken, "shutdown")
	r.wantLeft(away, "shutdown")
	if open := r.rows(t, "SELECT call_id FROM upstream_legs WHERE hung_up_at IS NULL"); len(open) > 0 {
		t.Errorf("not hung up: %q", open)
	}
	r.start() // to read what was saved
	if got := r.script(t, spoken.thread); len(got) == 0 || got[0] != spokenTurn {
		t.Errorf("thread %q", got)
	}
}

// TestShutdownWithTheTerminal closes the terminal of a process, which may send the signal more than once.
func TestShutdownWithTheTerminal(t *testing.T) {
	t.Parallel()
	// If this process ignored the signal, as below nohup, its children would, too.
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(closed) })
	p := launch(t, environment(t))
	p.mine = true // the test stops it itself
	for range 2 {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	testkit.Receive(t, "the end of the process", p.ended)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.stderr.String(), "stopping") {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

// TestShutdownCutsOff stops the process while the upstream takes longer to answer a
// hang-up than there is time. The exit code says so, and the next start ends what is left.
func TestShutdownCutsOff(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	r := newRig(t, rigConfig{environ: append(slices.Clone(waiting), "VOICEBRIDGE_SHUTDOWN_SECONDS=1")})
	r.holding.Store(&held)
	c := r.dial(t, request{})
	c.next("bridge.ready")
	hello(c)
	if code := r.terminate(); code != 1 || !strings.Contains(r.stderr.String(), "not everything ended in time") {
		t.Errorf("exit code %d", code)
	}
	close(held)
	r.start()
	r.wantScript(t, c.thread, answered...)
	r.nothingOpen(t, c.thread)
	r.upstreamEnded(c)
	testkit.Eventually(t, "an upstream session that is hung up", func() bool {
		return len(r.rows(t, "SELECT call_id FROM upstream_legs WHERE hung_up_at IS NULL")) == 0
	})
}
