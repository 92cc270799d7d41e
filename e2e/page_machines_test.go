package e2e

import (
	"testing"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// TestPageOnManyMachines has the page in a browser, and three processes behind a proxy that gives each
// of its requests, and each socket, to the next one. The process that has the call is killed: the page
// says so, and its next call works.
func TestPageOnManyMachines(t *testing.T) {
	t.Parallel()
	cfg := speaking(greets)
	cfg.Pace = simulator.Pace{Think: quick.Think, Step: quick.Step, Transcript: quick.Transcript}
	c := newCluster(t, 3, rigConfig{database: persistencetest.PostgresURL(t), simulator: cfg, environ: waiting})
	p := openBrowser(t)
	p.visit(t, c.url)
	p.click(t, "talk")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.untilSilent(t)
	p.say(t, chartWords)
	p.untilMessage(t, "user text completed", chartWords)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.untilSilent(t)
	p.click(t, "hangup")
	p.untilOver(t)
	if got := c.untilEnded(t, 1); got[0] != "hangup" {
		t.Errorf("the call ended with %q", got[0])
	}

	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Remember me.")
	p.untilMessage(t, "user text completed", "Remember me.")
	home := c.homeOf("c.ended_at IS NULL")
	c.nodes[home].kill()
	p.until(t, "the word for it", "probe.all('notice').some((n) => n.dataset.code === 'ended_connection_lost')")
	p.untilOver(t)

	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Are you back?")
	p.untilMessage(t, "user text completed", "Are you back?")
	p.click(t, "hangup")
	p.untilOver(t)
	if got := c.untilEnded(t, 3); got[1] != "process_ended" || got[2] != "hangup" {
		t.Errorf("the calls ended with %q", got)
	}
}
