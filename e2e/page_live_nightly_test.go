//go:build nightly

package e2e

import (
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// restFor is longer than an upstream is left alone that has failed.
const restFor = 65 * time.Second

// TestPageLiveHandsOff has a call of the page go on when its session with GPT-Live expires, with the Realtime API while GPT-Live cannot
// be reached, and with GPT-Live again when that is lost. The page learns which of them listens while it speaks.
func TestPageLiveHandsOff(t *testing.T) {
	t.Parallel()
	s := newRig(t, rigConfig{
		simulator: simulator.Config{Script: liveScript(greets)}, upstreams: "[" + byLive + "," + byWebRTC + "]",
		environ: []string{"VOICEBRIDGE_CONFIG=" + noFile(t)},
	})
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Remember me.")
	p.until(t, "an answer", "probe.messages().some((m) => m.source === 'voice' && m.status === 'completed')")
	renewed := func(what, event string) {
		t.Helper()
		p.until(t, what, "probe.events.some(({ event: e }) => e.type === 'bridge.upstream.renewed' && ("+event+"))")
		p.untilLive(t)
	}
	remembers := func(words string) {
		t.Helper()
		p.say(t, "What did I say before?")
		p.untilMessage(t, "assistant voice completed", "You said: "+words)
		p.untilSilent(t)
	}
	s.liveSession(t, 1).Expire()
	renewed("another session", "e.reason === 'session_expired' && e.duplex")
	remembers("Remember me.")

	s.down.Store(new("/v1/live/sessions"))
	s.liveSession(t, 2).Drop()
	renewed("a session of the Realtime API", "e.upstream === 'relayed' && !e.duplex")
	p.say(t, chartWords)
	p.untilMessage(t, "assistant voice completed", drawn)
	p.untilSilent(t)

	s.down.Store(nil)
	<-time.After(restFor)
	sessions := s.sim.Sessions()
	sessions[len(sessions)-1].Drop()
	renewed("a session with GPT-Live", "e.upstream === 'lively' && e.duplex")
	remembers(chartWords)
	p.click(t, "hangup")
	p.untilOver(t)
	testkit.Eventually(t, "the end of all sessions", func() bool {
		return len(s.rows(t, "SELECT id FROM responses WHERE status = 'in_progress'")) == 0
	})
	s.untilEnded(t, 1)
	var said []string
	for _, m := range s.messages(t, p.thread(t)) {
		if m.Role == "user" {
			said = append(said, m.Text())
		}
	}
	testkit.Equal(t, said, []string{"Remember me.", "What did I say before?", chartWords, "What did I say before?"}, "said")
	testkit.Equal(t, s.rows(t, "SELECT upstream FROM calls"), []string{"lively"}, "the call was with in the end")
}
