package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// signIn answers the page's question for a token.
func (p *tab) signIn(t *testing.T, token string) {
	t.Helper()
	p.until(t, "the question for a token", "probe.all('token').length === 1")
	eval[bool](t, p, fmt.Sprintf("((input) => { input.value = %q; return input.dispatchEvent(new Event('input')); })(probe.all('token')[0])", token))
	p.click(t, "token-submit")
}

// TestPageSignsInAndOut gives no token until it writes, is refused with a wrong one, writes with the right one and signs out. Nothing of the user is
// left in the tab then, and all of it is back after the next sign-in, except for what was not sent.
func TestPageSignsInAndOut(t *testing.T) {
	t.Parallel()
	const token = "ada-token-of-the-tests"
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_API_TOKENS=ada:"+token, "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "the question for a token", "probe.all('token').length === 1")
	p.press(t, "Escape", 27)
	p.untilNotice(t, "invalid_api_key", "needs an access token")
	p.say(t, "Tell me a long story.")
	p.signIn(t, "a-wrong-token-of-the-tests")
	p.until(t, "why not", "document.querySelector('[data-testid=token-dialog] [role=alert]') !== null")
	p.signIn(t, token)
	p.until(t, "the page of a user", "probe.all('token-dialog').length + probe.all('notice').length === 0")
	p.untilMessage(t, "assistant text completed", "That is the whole story.")
	p.do(t, "begin another text", chromedp.KeyEvent("A secret"), chromedp.Evaluate[chromedp.Void]("(document.body.dataset.old = 'true', undefined)"))
	p.click(t, "more")
	p.click(t, "sign-out")
	p.do(t, "see the page anew", chromedp.WaitVisible(chromedp.CSS("body:not([data-old]) [data-testid=token-dialog]")), chromedp.Evaluate[chromedp.Void](probe))
	testkit.Equal(t, eval[string](t, p, "probe.all('textbox')[0].value + location.hash + probe.all('thread-item').length"), "0", "after signing out the page")
	p.signIn(t, token)
	p.until(t, "the thread", "probe.all('thread-item').length === 1")
}
