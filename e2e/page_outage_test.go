package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// newer lets the server tell of another version.
const newer = `window.fetch = ((fetch) => async (url, init) => {
	const answer = await fetch(url, init);
	return String(url).endsWith('api/config') ? Response.json({ ...await answer.json(), version: 'newer' }) : answer;
})(window.fetch), undefined`

// TestPageServerAway kills the server during a call. The page notices by its socket, not
// by a time-out, says so once, and removes the notice when the server is back, which is a newer one now.
func TestPageServerAway(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Remember me.")
	p.untilMessage(t, "user text completed", "Remember me.")
	// What the page reads unasked when the server dies fails too, and that is no news.
	must(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	p.until(t, "the thread being read", fmt.Sprintf(`new Promise((done) => {
		location.hash = '#/';
		setTimeout(() => { location.hash = '#/t/%s'; setTimeout(() => done(true), 50); }, 50);
	})`, p.thread(t)))
	p.do(t, "get another version", chromedp.Evaluate[chromedp.Void](newer))
	s.kill()
	p.until(t, "the word for it, and hang-up beside it", `probe.all('offline')[0]?.dataset.trouble === 'away' &&
		probe.all('call-trouble')[0]?.dataset.trouble === 'away' && probe.all('hangup').length === 1`)
	if more := eval[[]string](t, p, "probe.all('notice').map((n) => n.dataset.code)"); len(more) != 0 {
		t.Errorf("notices that say the same: %q", more)
	}
	p.wantAccessible(t, "without its server")
	p.look(t, "away")
	p.do(t, "make it a phone", chromedp.EmulateViewport(390, 844))
	p.until(t, "the menu beside it", inView+"('more')")
	p.look(t, "away-phone")
	p.do(t, "make it large again", chromedp.EmulateViewport(1280, 800))
	s.start()
	p.until(t, "no word of it", "probe.all('offline').length === 0")
	p.untilNotice(t, "new_version", "Reload the page")
	// That call ended with its server. The next one works without a reload.
	p.untilOver(t)
	p.untilMessage(t, "user text completed", "Remember me.")
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, "Are you back?")
	p.untilMessage(t, "user text completed", "Are you back?")
	p.click(t, "hangup")
	p.untilOver(t)
}

// noPath leaves a page without a path for its audio, as a firewall would: only relays may
// be used, and there are none.
const noPath = `window.RTCPeerConnection = class extends RTCPeerConnection {
	constructor(settings) { super({ ...settings, iceTransportPolicy: 'relay' }); }
}, undefined`

// later moves the page's clock forward.
const later = "((now) => { Date.now = () => now() + 10_000; })(Date.now.bind(Date)), undefined"

// TestPageMediaBlocked makes a call whose audio cannot get through. After ten seconds of
// the page's clock the page says so plainly, and what to do.
func TestPageMediaBlocked(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.do(t, "block the sound", chromedp.Evaluate[chromedp.Void](noPath))
	p.click(t, "talk")
	p.until(t, "a call that was taken", "location.hash.startsWith('#/t/') && voicebridge.pc?.remoteDescription")
	p.do(t, "let time pass", chromedp.Evaluate[chromedp.Void](later))
	p.until(t, "plain words", `probe.all('call-trouble')[0]?.dataset.trouble === 'media' && probe.all('call-retry').length === 1`)
	if words := eval[string](t, p, "probe.all('call-trouble')[0].innerText"); len(words) < 80 {
		t.Errorf("the page says only %q", words)
	}
	p.wantAccessible(t, "without a path for the sound")
	p.look(t, "blocked")
	p.click(t, "hangup")
	p.untilOver(t)
	p.until(t, "no word of it", "probe.all('call-trouble').length === 0")
}
