//go:build nightly

package e2e

import (
	"flag"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// `go test -tags nightly ./e2e -run 'Renewals$' -v -args -renewals 100` chooses how many.
var renewals = flag.Int("renewals", 40, "at least how many planned, and how many sudden, renewals to test")

// TestPageThroughRenewals has a page in calls whose upstream session is replaced: on time,
// and after losses. Its connection never leaves the state "connected".
func TestPageThroughRenewals(t *testing.T) {
	t.Parallel()
	p := openBrowser(t)
	for _, kind := range []struct {
		name    string
		length  time.Duration // of a session
		environ []string
		end     func(*simulator.Session)
	}{
		{"planned", renewedLength, []string{renewedEarly}, func(*simulator.Session) {}},
		{"sudden", time.Hour, nil, (*simulator.Session).Drop},
	} {
		s := newRig(t, rigConfig{environ: kind.environ, simulator: simulator.Config{Script: recallScript(), Continuous: true, MaxDuration: kind.length}})
		p.visit(t, s.url)
		var typed []string
		for call := range (*renewals + callRenewals - 1) / callRenewals {
			p.do(t, "forget what was", chromedp.Evaluate[chromedp.Void]("(probe.events.length = probe.states.length = 0, undefined)"))
			p.click(t, "talk")
			p.untilLive(t)
			for i := range min(callRenewals, *renewals-call*callRenewals) {
				word := fmt.Sprintf("Echo: %d-%d", call, i)
				typed = append(typed, word, recallPlease)
				p.say(t, word)
				kind.end(s.current(t, s.liveCall(t)))
				p.until(t, "a new session", fmt.Sprintf("probe.events.filter(({ event }) => event.type === 'bridge.upstream.renewed').length > %d", i))
				p.say(t, recallPlease)
				p.untilMessage(t, "assistant voice completed", recalled+word)
			}
			testkit.Equal(t, eval[[]string](t, p, "probe.states"), []string{"connecting", "connected"}, "%s: the connection was in the states", kind.name)
			t.Logf("%s: audio in Chromium: %s", kind.name, eval[string](t, p, `voicebridge.pc.getStats().then((all) => [...all.values()]
				.filter((s) => s.type === 'inbound-rtp' && s.kind === 'audio')
				.map((s) => Math.round(s.concealedSamples / 48) + ' of ' + Math.round(s.totalSamplesReceived / 48) + ' ms had to be concealed').join())`))
			p.click(t, "hangup")
			p.untilOver(t)
			s.untilEnded(t, call+1)
		}
		testkit.Equal(t, s.rows(t, "SELECT text FROM messages WHERE role = 'user' ORDER BY created_at"), typed, "%s: typed was, the database", kind.name)
		p.visit(t, "about:blank")
	}
}

// callRenewals is how many renewals one call goes through: it does not survive more than
// six losses in ten minutes.
const callRenewals = 5

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
