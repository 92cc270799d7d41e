package e2e

import (
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// TestPageComesBack reloads the page in a call and goes on with it, and then goes on in another browser.
func TestPageComesBack(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), waiting...)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Remember me.")
	p.untilMessage(t, "user text completed", "Remember me.")
	p.reload(t)
	p.until(t, "the way back", "probe.all('rejoin').length === 1")
	p.click(t, "rejoin")
	p.untilLive(t)
	other := p.another(t)
	other.visit(t, eval[string](t, p, "location.href"))
	other.until(t, "the call of the other tab", "probe.all('take-over').length === 1")
	other.click(t, "take-over")
	other.untilLive(t)
	p.untilOver(t)
	p.until(t, "the call of the other tab", "probe.all('take-over').length === 1")
	other.say(t, "Go on, please.")
	other.untilMessage(t, "user text completed", "Go on, please.")
	other.click(t, "hangup")
	other.untilOver(t)
	p.until(t, "no call elsewhere", "probe.all('take-over').length === 0")
	testkit.Equal(t, len(s.sim.Sessions()), 1, "sessions were opened for one call")
	s.untilEnded(t, 1)
}
