//go:build nightly

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// opened clicks through to a panel or a dialog, and says what was not there.
const opened = `(async (way) => {
	const hit = (id) => [...document.querySelectorAll('[data-testid=' + id + ']')].find((e) => e.getClientRects().length > 0) ?? document.querySelector('[data-testid=' + id + ']');
	const settle = () => new Promise((done) => setTimeout(done, 30));
	for (const id of way) {
		for (let tries = 0; !hit(id) && tries < 100; tries++) await settle();
		if (!hit(id)) return id;
		hit(id).click();
		await settle();
	}
	for (let tries = 0; document.querySelector('[role=status]')?.innerText === '…' && tries < 100; tries++) await settle();
	await Promise.all(document.getAnimations().filter((a) => a.effect.getTiming().iterations !== Infinity).map((a) => a.finished.catch(() => {})));
	return '';
})`

// TestPageAccessible opens every panel, menu and dialog without a call and in one, on a phone and on a desktop, light and dark, in English
// and German, and lets axe look at each.
func TestPageAccessible(t *testing.T) {
	t.Parallel()
	settings := write(t, "assistants: [{name: Front desk, instructions: You are the front desk., voice: {voice: cedar}}]\n"+rigSettings)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator", "VOICEBRIDGE_CONFIG="+settings,
		"VOICEBRIDGE_RECORDING__ENABLED=true")
	s.postJSON(t, "/api/assistants", `{"id":"ada","name":"Ada","greeting":"Good day!"}`, http.StatusCreated, &struct{}{})
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "the page", "probe.all('textbox').length === 1")
	p.say(t, chartWords)
	p.untilMessage(t, "assistant text completed", "")
	p.click(t, "talk")
	p.talk(t, heardWords)
	p.say(t, chartWords)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.click(t, "hangup")
	p.untilOver(t)
	s.untilEnded(t, 1)
	here := p.thread(t)
	s.postJSON(t, "/api/threads/"+here+"/share", "", http.StatusOK, &struct{}{})
	ways := [][]string{
		{}, {"more"}, {"menu"}, {"menu", "about"}, {"menu-settings"}, {"menu-settings", "show-usage"}, {"menu-settings", "show-assistant"},
		{"menu-settings", "show-hooks"}, {"menu-settings", "erase-everything"}, {"menu-settings", "show-assistants"},
		{"menu-settings", "show-assistants", "edit-assistant"}, {"menu-settings", "show-assistants", "add-assistant"},
		{"menu-thread"}, {"menu-share"}, {"menu-canvas"}, {"call-more"},
	}
	for _, scene := range []struct {
		theme, lang   string
		width, height int64
		call          bool
	}{
		{"light", "en", 1280, 800, false},
		{"dark", "de", 390, 844, false},
		{"light", "de", 320, 568, true},
		{"dark", "en", 1280, 800, true},
		{"dark", "en", 844, 390, true},
	} {
		p.do(t, "change the window", chromedp.EmulateViewport(scene.width, scene.height))
		chosen, err := json.Marshal([]string{scene.theme, scene.lang})
		must(t, err)
		p.do(t, "choose colours and a language", chromedp.Evaluate[chromedp.Void]("(([theme, language]) => { localStorage.setItem('voicebridge-theme', theme); localStorage.setItem('voicebridge-language', language); })("+string(chosen)+"), undefined"))
		p.visit(t, s.url+"/?"+scene.theme+scene.lang+"#/t/"+here)
		p.until(t, "the conversation", "probe.all('message').length > 2")
		if scene.call {
			p.click(t, "talk")
			p.untilLive(t)
		}
		for _, way := range ways {
			if scene.call && strings.Join(way, "") == "call-more" {
				continue
			}
			text, err := json.Marshal(way)
			must(t, err)
			testkit.Equal(t, eval[string](t, p, opened+"("+string(text)+")"), "", "%+v: %v: there is no", scene, way)
			p.wantAccessible(t, strings.Join(append([]string{scene.theme, scene.lang}, way...), " "))
			p.do(t, "close it", chromedp.Evaluate[chromedp.Void](`(() => {
				document.querySelector('[data-testid=close-panel]')?.click();
				document.querySelector('.shade')?.click();
				document.querySelectorAll('[popover]:popover-open').forEach((e) => e.hidePopover());
			})(), undefined`))
		}
		if scene.call {
			p.click(t, "hangup")
			p.untilOver(t)
		}
	}
}
