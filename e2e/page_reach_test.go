package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// outOfReach opens each panel and the list during a call, and names what of the call is covered or out of the window then.
const outOfReach = `(async () => {
	const found = [];
	const frames = async () => { for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame); await Promise.all(document.getAnimations().filter((a) => a.effect.getTiming().iterations !== Infinity).map((a) => a.finished.catch(() => {}))); };
	const hit = (id) => document.querySelector('[data-testid=' + id + ']');
	const ways = [[], ['call-settings'], ['who'], ['menu-share'], ['menu-settings'], ['menu-canvas'], ['menu-settings', 'show-assistants'], ['menu-settings', 'show-usage'], ['menu-settings', 'show-assistant'], ['menu'], ['call-settings', 'menu'], ['menu', 'about']];
	await frames();
	for (const way of ways) {
		for (const id of way) {
			for (let tries = 0; !hit(id) && tries < 300; tries++) await frames();
			if (!hit(id)) found.push('no ' + id);
			hit(id)?.click();
			await frames();
		}
		for (const id of ['mute', 'stop-talking', 'hangup', 'textbox']) {
			const within = () => {
				const e = hit(id) ?? document.getElementById(id);
				const { x, y, width, height } = e?.getBoundingClientRect() ?? {};
				const top = e && document.elementFromPoint(x + width / 2, y + height / 2);
				return top && (e.contains(top) || top.contains(e) && top.closest('form'));
			};
			for (let tries = 0; !within() && tries < 300; tries++) await frames(); // what opens may move
			if (!within()) found.push(id + ' with ' + (way.join(' and ') || 'nothing') + ' at ' + innerWidth);
		}
		hit('close-panel')?.click();
		document.querySelector('.shade')?.click();
		await frames();
	}
	return found.join(', ');
})()`

// TestPageCallInReach keeps the buttons of a call and the box to type into within reach, whatever is open, on small phones and on one on its side.
func TestPageCallInReach(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.do(t, "change the window", chromedp.EmulateViewport(390, 844))
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	for _, size := range [][2]int64{{320, 568}, {360, 640}, {390, 844}, {412, 915}, {844, 390}} {
		p.do(t, "change the window", chromedp.EmulateViewport(size[0], size[1]))
		p.until(t, "the stage", "probe.all('stage').length === 1")
		testkit.Equal(t, eval[string](t, p, outOfReach), "", "%dx%d: out of reach", size[0], size[1])
		p.look(t, fmt.Sprintf("reach-%d", size[0]))
	}
	p.click(t, "hangup")
	p.untilOver(t)
}

// TestPageAsksToRecord opens no microphone for an assistant that records until the user has agreed, and then asks no more.
func TestPageAsksToRecord(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_RECORDING__ENABLED=true")
	var made struct{ ID string }
	s.postJSON(t, "/api/assistants", `{"id":"ada","name":"Ada","recording":true}`, http.StatusCreated, &made)
	s.postJSON(t, "/api/threads", `{"assistant_id":"ada"}`, http.StatusCreated, &made)
	p := openBrowser(t)
	p.visit(t, s.url+"/#/t/"+made.ID)
	p.do(t, "count microphones", chromedp.Evaluate[chromedp.Void](`((open) => { probe.opened = 0; navigator.mediaDevices.getUserMedia = (wanted) => (probe.opened++, open(wanted)); })(navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices)), undefined`))
	p.until(t, "whom one talks to", "probe.all('who')[0]?.innerText.includes('Ada')")
	p.click(t, "talk")
	p.until(t, "a question", "probe.all('consent-dialog').length === 1 && probe.opened === 0")
	p.wantAccessible(t, "consent")
	p.click(t, "consent-refuse")
	p.until(t, "no call", "probe.all('consent-dialog').length === 0 && probe.all('call-state').length === 0 && probe.opened === 0")
	p.click(t, "talk")
	p.click(t, "consent-agree")
	p.untilLive(t)
	p.until(t, "the sign of a recording", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.click(t, "hangup")
	p.untilOver(t)
	p.click(t, "talk")
	p.untilLive(t) // without another question
	p.click(t, "hangup")
	p.untilOver(t)
}
