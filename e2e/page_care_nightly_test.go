//go:build nightly

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

const night = true

// contrast returns the contrast between a button's text and its background, as defined by
// WCAG 2.2.
const contrast = `((id) => {
	const style = getComputedStyle(probe.all(id)[0]);
	const light = (color) => color.match(/[\d.]+/g).slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
	return (a + 0.05) / (b + 0.05);
})`

// pressable are what can be seen of what is there to be pressed.
const pressable = `[...document.querySelectorAll('button, input, textarea, select, audio, aside, .dock, .sheet')]
	.filter((e) => e.checkVisibility() && !e.closest('th, .bubble')).map((e) => e.dataset.testid ?? e.className)`

// medium shows the page as on a medium, such as print.
func (p *tab) medium(t *testing.T, medium string) {
	t.Helper()
	p.do(t, "show it as on "+medium, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium})
		return err
	}))
}

// TestPageLooks visits the main states of the page, in light, dark and at a phone's width:
// each is accessible, "Hang up" is readable under the mouse, and
// the document is as tall as the window.
func TestPageLooks(t *testing.T) {
	t.Parallel()
	settings := write(t, "tools: {approve: [create_bar_chart]}\n"+rigSettings)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+settings)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "an empty page", "probe.all('empty').length === 1")
	p.wantAccessible(t, "empty")
	p.look(t, "empty")
	p.click(t, "talk")
	p.until(t, "the focus on mute", "document.activeElement === probe.all('mute')[0]")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	at := eval[[]float64](t, p, "(({ x, y }) => [x + 10, y + 10])(probe.all('hangup')[0].getBoundingClientRect())")
	p.do(t, "point at hang-up", chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	p.until(t, "hang-up that can be read under the mouse", contrast+"('hangup') >= 3")
	p.wantAccessible(t, "in a call")
	p.look(t, "call")
	p.click(t, "mute")
	p.until(t, "the word for it", "probe.all('call-state')[0].innerText === 'Muted'")
	p.until(t, "a mute button that can be read under the mouse", contrast+"('mute') >= 3")
	p.say(t, chartWords)
	p.until(t, "the question", "probe.all('approval-dialog').length === 1")
	p.until(t, "hang-up beside the question", `(({ x, y, width, height }) =>
		probe.all('hangup')[0].contains(document.elementFromPoint(x + width / 2, y + height / 2)))(probe.all('hangup')[0].getBoundingClientRect())`)
	p.until(t, "a card that says whom the tool waits for", "probe.all('tool-card').at(-1)?.innerText.includes('Waiting for your answer')")
	p.wantAccessible(t, "asked for approval")
	p.look(t, "approval")
	p.click(t, "approve")
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.untilMessage(t, "assistant voice completed", drawn)
	testkit.Equal(t, eval[string](t, p, "probe.all('announcer')[0].textContent"), "", "what is spoken aloud is read out as well")
	p.click(t, "hangup")
	p.until(t, "the focus on Talk", "document.activeElement === probe.all('talk')[0]")
	p.until(t, "what the call was like", "probe.all('call-end').length === 1")
	p.click(t, "call-more")
	p.until(t, "how long the answers took, by the server's clock", "probe.all('answer-time').length > 0 && probe.all('answer-time')[0].querySelectorAll('rect').length >= 2")
	p.wantAccessible(t, "after a call")
	p.look(t, "ended")
	s.untilEnded(t, 1) // from now on the database says what the call was like
	p.reload(t)
	p.until(t, "what the call was like, after a reload", "probe.all('call-end').length === 1 && probe.all('call-more').length === 1")
	p.click(t, "show-canvas")
	p.until(t, "the chart beside the thread", "probe.all('canvas-chart').length === 1")
	p.wantAccessible(t, "canvas")
	p.look(t, "canvas")
	p.click(t, "close-panel")
	for panel, way := range map[string][]string{"usage": {"about", "show-usage"}, "assistant": {"about", "show-assistant"}, "settings": {"more", "menu-settings"}} {
		for _, button := range way {
			p.click(t, button)
		}
		p.until(t, panel, "probe.all('"+panel+"-panel').length === 1")
		p.wantAccessible(t, panel)
		p.click(t, "close-panel")
	}
	p.click(t, "theme")
	p.wantAccessible(t, "dark")
	p.look(t, "dark")
	p.medium(t, "print")
	p.look(t, "paper")
	if found := eval[[]string](t, p, pressable); len(found) > 0 {
		t.Errorf("on paper there are %q", found)
	}
	testkit.Equal(t, eval[[]any](t, p, `(() => {
		const text = getComputedStyle(probe.all('message')[0].querySelector('.bubble'));
		const chart = document.querySelector('.scroll .picture svg')?.getBoundingClientRect();
		const last = probe.all('message').at(-1).getBoundingClientRect();
		return [text.color, getComputedStyle(document.body).backgroundColor, chart?.height > 100 && chart.left >= 0, document.documentElement.scrollHeight >= last.bottom - 1];
	})()`), []any{"rgb(0, 0, 0)", "rgb(255, 255, 255)", true, true}, "paper looks like")
	p.medium(t, "")
	p.do(t, "make it a phone", chromedp.EmulateViewport(390, 844))
	p.wantAccessible(t, "on a phone")
	p.look(t, "phone")
	if tall := eval[[]int](t, p, "[document.documentElement.scrollHeight, innerHeight, document.documentElement.scrollWidth, innerWidth]"); tall[0] != tall[1] || tall[2] > tall[3] {
		t.Errorf("the document is %d pixels tall in a window of %d, and %d wide in one of %d", tall[0], tall[1], tall[2], tall[3])
	}
}

// TestPageFits looks at what has to fit on a phone: what can be undone lies above the list, a chart that is enlarged gets larger,
// a phone on its side has the way to the transcript, and a long name is cut. In a user's own colours words to come look
// neither said nor selected.
func TestPageFits(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.do(t, "take a phone", chromedp.EmulateViewport(390, 844))
	p.visit(t, s.url)
	p.do(t, "type", chromedp.SendKeys(byID("textbox"), "Hello."))
	p.click(t, "send")
	p.until(t, "an answer", "probe.message('assistant text completed', '')")
	p.click(t, "menu")
	p.until(t, "the list in its place", "document.querySelector('aside.open')?.getBoundingClientRect().left === 0")
	p.click(t, "delete-thread")
	p.until(t, "what undoes it, above the list", reachable+"('notice-action') && document.querySelector('aside.open') !== null")
	p.click(t, "notice-action")
	p.press(t, "Escape", 27)

	const apart = `(([a, b]) => a.left >= b.right || b.left >= a.right || a.bottom <= b.top)(
		[probe.all('show-transcript')[0], document.querySelector('[data-testid=stage-made] h2')].map((e) => e.getBoundingClientRect()))`
	const wide = `(probe.all('who')[0].querySelector('b').textContent = 'Reception of the shop '.repeat(20),
		[...document.querySelectorAll('html, main, .stage, .middle, .who')].every((e) => e.scrollWidth <= Math.max(e.clientWidth, 0) + 1))`
	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "a long name that is cut", "probe.all('who').length === 1 && "+wide)
	p.say(t, chartWords)
	p.until(t, "a chart on the stage", "document.querySelector('[data-testid=stage-made] [data-drawn] svg') !== null")
	const tall = "document.querySelector('[data-testid=stage-made] .picture').clientHeight"
	before := eval[int](t, p, tall)
	p.click(t, "made-large")
	p.until(t, "a larger chart", fmt.Sprintf("%s > %d", tall, before))
	p.look(t, "large")
	p.do(t, "turn it", chromedp.EmulateViewport(844, 390))
	const inReach = "['show-transcript', 'mute', 'hangup', 'made-large'].every(" + reachable + ") && " + apart
	p.until(t, "all in reach beside a large chart", inReach)
	p.look(t, "turned")
	before = eval[int](t, p, tall)
	p.click(t, "made-large")
	p.until(t, "all in reach beside a small chart", fmt.Sprintf("%s < %d && %s", tall, before, inReach))
	p.look(t, "turned-small")
	p.media(t, "forced-colors", "active")
	p.until(t, "words to come in colours of their own", `(() => {
		const look = getComputedStyle(document.body, '::highlight(unsaid)');
		const as = (name) => { const e = document.body.appendChild(document.createElement('i')); e.style.color = name; const { color } = getComputedStyle(e); e.remove(); return color; };
		return look.backgroundColor === as('Canvas') && look.color === as('GrayText');
	})()`)
}
