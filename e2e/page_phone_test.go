package e2e

import (
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// TestPagePhone has a number called, and follows that on the page: the number, what is said, what is typed into the call, and its end by
// the page's button.
func TestPagePhone(t *testing.T) {
	t.Parallel()
	takePlace(t)
	c := newCarrier(t, "twilio")
	c.r = newRig(t, rigConfig{simulator: simulator.Config{Script: rigScript()}, environ: c.settings(told)})
	c.dial("CA1", "+493011111111")
	var threads []string
	testkit.Eventually(t, "the call", func() bool {
		threads = c.r.rows(t, "SELECT thread_id FROM calls")
		return len(threads) == 1
	})
	p := openBrowser(t)
	p.visit(t, c.r.url+"/#/t/"+threads[0])
	p.until(t, "the number, and no way to talk", "probe.all('phone-call')[0]?.innerText.includes('+493011111111') && probe.all('talk').length === 0")
	p.untilMessage(t, "assistant voice completed", told)
	p.say(t, "What did I say?")
	p.untilMessage(t, "assistant voice", "You said:")
	p.look(t, "phone")
	p.click(t, "phone-hangup")
	p.until(t, "the end of the call", "probe.all('phone-call').length === 0 && probe.all('call-number')[0]?.innerText === '+493011111111'")
}
