package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// TestPageRegenerates has an answer regenerated: the other one is said to its end.
func TestPageRegenerates(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t, silent(t))
	p.visit(t, s.url)
	p.say(t, "Tell me a long story.")
	p.untilMessage(t, "assistant text completed", "That is the whole story.")
	p.do(t, "ask again", chromedp.Evaluate[chromedp.Void]("(probe.all('regenerate').at(-1).click(), undefined)"))
	p.until(t, "the end of another answer", "probe.messages().length === 3 && probe.messages().at(-1).status !== 'in_progress'")
	if last := p.messages(t)[2]; last.Status != "completed" || last.Role != "assistant" {
		t.Errorf("the other answer is %+v", last)
	}
}
