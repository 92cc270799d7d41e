package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

func (p *tab) untilServer(t *testing.T, server, state string) {
	t.Helper()
	p.until(t, server+" in the state "+state, fmt.Sprintf("document.querySelector('[data-testid=mcp-server][data-server=%s]')?.dataset.state === %q", server, state))
}

// window returns another window of the browser, once it has come to an address with these words.
func (p *tab) window(t *testing.T, address string) *tab {
	t.Helper()
	var id target.ID
	mine := chromedp.FromContext(p.ctx).BrowserContextID
	testkit.Eventually(t, "a window at "+address, func() bool {
		windows, err := chromedp.Targets(p.ctx)
		must(t, err)
		at := slices.IndexFunc(windows, func(w *target.Info) bool {
			return w.Type == "page" && w.BrowserContextID == mine && strings.Contains(w.URL, address)
		})
		if at >= 0 {
			id = windows[at].TargetID
		}
		return at >= 0
	})
	return openTab(p.ctx, t, p.microphone, chromedp.WithTargetID(id))
}

// backFrom closes a window, after which the user is back at the tab.
func (p *tab) backFrom(t *testing.T, window *tab) {
	t.Helper()
	window.do(t, "close the window", chromedp.Evaluate[chromedp.Void]("(setTimeout(() => window.close()), undefined)"))
	p.do(t, "have the focus again", chromedp.Evaluate[chromedp.Void]("(dispatchEvent(new Event('focus')), undefined)"))
}

// TestPageSignsInFromACard has a tool fail in a call because the owner has to sign in. Its card has the button; the call goes on meanwhile,
// and afterwards
// there are the tools, until the owner gives the sign-in back.
func TestPageSignsInFromACard(t *testing.T) {
	t.Parallel()
	authority, model := signintest.NewAuthority(t), newToolModel(t)
	r := newRig(t, rigConfig{
		simulator: simulator.Config{Pace: quick}, upstreams: "[" + byWebRTC + "]",
		environ: []string{
			"VOICEBRIDGE_API_TOKENS=anna:" + anna, "OPENAI_BASE_URL=" + model.URL + "/v1", "VOICEBRIDGE_TEXT_PROVIDER=openai",
			"VOICEBRIDGE_MCP_CONFIG=" + writeMCP(t, map[string]any{"post": map[string]any{"url": authority.NewServer(t), "auth": "oauth"}}),
			"VOICEBRIDGE_TOOLS__WEB__ALLOW_NETWORKS=127.0.0.0/8,::1/128", "VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS=" + portOf(t, authority.URL),
		},
	})
	p := openBrowser(t)
	p.visit(t, strings.Replace(r.url, "127.0.0.1", "localhost", 1))
	p.signIn(t, anna)
	p.until(t, "the page of a user", "probe.all('token-dialog').length + probe.all('notice').length === 0 && probe.all('textbox').length === 1")
	const failed = `document.querySelector('[data-testid=tool-card][data-tool=post__sign_in][data-state=failed]')`
	const button, done = failed + `?.querySelectorAll('[data-testid=mcp-connect]').length`, failed + `?.querySelector('[data-testid=signed-in]')?.innerText`

	p.say(t, "call post__sign_in {}")
	p.until(t, "the button", button+" === 1")
	p.wantAccessible(t, "a card with a sign-in")
	p.look(t, "card")
	p.click(t, "talk")
	p.untilLive(t)
	p.click(t, "mcp-connect")
	window := p.window(t, "/api/mcp/callback?")
	window.until(t, "the end of the sign-in", "document.body?.innerText.includes('Signed in to post')")
	p.backFrom(t, window)
	p.until(t, "a card that says so", done+" === 'You are signed in to post. Ask again, and its tools can be used.' && "+button+" === 0")
	p.untilLive(t) // all the while
	p.click(t, "hangup")
	p.untilOver(t)

	p.say(t, "call post__whoami {}")
	p.untilMessage(t, "assistant text completed", "0 images: You are user-1")
	p.pressID(t, "about")
	p.pressID(t, "show-assistant")
	p.untilServer(t, "post", "connected")
	p.click(t, "mcp-disconnect")
	p.untilServer(t, "post", "sign_in")
	p.press(t, "Escape", 27)
	if authority.Count("revoke") != 1 || authority.Open() != 0 {
		t.Errorf("%d revoked, %d open", authority.Count("revoke"), authority.Open())
	}
	for _, token := range authority.Tokens() {
		if strings.Contains(r.stderr.String(), token) {
			t.Error("the log has a token")
		}
	}
	p.do(t, "choose German", chromedp.Evaluate[chromedp.Void]("localStorage.setItem('voicebridge-language', 'de'), undefined"))
	p.reload(t)
	p.until(t, "the card after a reload, as it is once signed out", failed+"?.innerText.includes('Sie müssen sich zuerst bei post anmelden.')")
}
