package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// litWords notes each letter up to which the answer that is spoken is lit, and when that was.
const litWords = `(() => {
	probe.lit = [];
	const look = () => {
		const [range] = CSS.highlights.get('unsaid') ?? [];
		const letters = range ? range.endContainer.textContent.length - String(range).length : 0;
		if (letters > 0 && letters !== probe.lit.at(-1)?.letters) probe.lit.push({ letters, at: performance.now() });
		requestAnimationFrame(look);
	};
	look();
})(), undefined`

// farthestBehind is how many seconds the lit word may be from the sound.
const farthestBehind = 0.5

// voicedUntil is when the last sound of a recording ends, in seconds: silence follows it.
func voicedUntil(samples []int16) float64 {
	const audible = 600
	for at := len(samples) - 1; at >= 0; at-- {
		if samples[at] > audible || samples[at] < -audible {
			return float64(at) / soundRate
		}
	}
	return 0
}

// TestPageLightsWords lets the simulator tell a long story whose sound is known: where a part of it ends, the words that are lit are those
// that have been heard.
func TestPageLightsWords(t *testing.T) {
	t.Parallel()
	cfg := speaking(tellsLong)
	story := cfg.Script.Spoken[0].Say
	sound := simulator.Speech(story)
	s := serveWith(t, persistencetest.SQLiteURL(t), cfg)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.do(t, "watch the words", chromedp.Evaluate[chromedp.Void](litWords))
	p.talk(t, cfg.Script.Spoken[0].Transcript)
	p.until(t, "the end of the story", "probe.events.some(({ way, event }) => way === 'in' && event.type === 'output_audio_buffer.stopped')")
	began := eval[float64](t, p, "probe.events.find(({ way, event }) => way === 'in' && event.type === 'output_audio_buffer.started').at")
	lit := eval[[]struct {
		Letters int
		At      float64
	}](t, p, "probe.lit")
	var compared int
	for end := range story {
		if story[end] != '.' || end == len(story)-1 {
			continue
		}
		part := simulator.Speech(story[:end+1])
		if len(part) >= len(sound) || !bytes.Equal(part[len(part)-1], sound[len(part)-1]) {
			continue // it ends within a recorded clip
		}
		compared++
		heard := voicedUntil(saidSamples(t, story[:end+1]))
		shown := -1.0
		for _, l := range lit {
			if l.Letters > end {
				shown = (l.At - began) / 1000
				break
			}
		}
		t.Logf("%q was heard after %.2f s and lit after %.2f s", story[max(0, end-20):end+1], heard, shown)
		if shown < heard-farthestBehind || shown > heard+farthestBehind {
			t.Errorf("%q was heard after %.2f s and lit after %.2f s", story[max(0, end-20):end+1], heard, shown)
		}
	}
	if compared < 3 {
		t.Errorf("only %d parts of the story could be compared", compared)
	}
	p.click(t, "hangup")
	p.untilOver(t)
}

// TestPageShowsWhatIsMade draws a chart on the stage of a phone, and interrupts an answer. Whoever has the link sees the drawn chart and
// the words that were heard, in German.
func TestPageShowsWhatIsMade(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.do(t, "take a phone", chromedp.EmulateViewport(390, 844))
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.say(t, chartWords)
	p.until(t, "the chart on the stage", "document.querySelector('[data-testid=stage] [data-testid=stage-made] "+drawnChart+"') !== null")
	for _, id := range []string{"mute", "hangup", "made-away"} {
		p.until(t, id+" in reach", reachable+"('"+id+"')")
	}
	p.wantAccessible(t, "a chart on the stage")
	p.look(t, "stage-chart")
	p.untilSilent(t)
	p.click(t, "made-away")
	p.until(t, "no chart on the stage", "probe.all('stage-made').length === 0")
	const begun = "probe.events.filter(({ event }) => event.type === 'output_audio_buffer.started').length"
	before := eval[int](t, p, begun)
	p.say(t, "Tell me a long story.")
	p.until(t, "the story", fmt.Sprintf("%s > %d && probe.all('stage-captions')[0]?.innerText.includes('how a call travels') && CSS.highlights.get('unsaid')?.size > 0 && ![...CSS.highlights.get('unsaid')].some((range) => String(range).startsWith('Let me tell'))", begun, before))
	p.click(t, "stop-talking")
	p.click(t, "hangup")
	p.untilOver(t)
	s.untilEnded(t, 1)
	var link struct{ URL string }
	s.postJSON(t, "/api/threads/"+p.thread(t)+"/share", "", http.StatusOK, &link)

	reader := p.elsewhere(t)
	reader.do(t, "read German", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "a reader", AcceptLanguage: "de-DE,de"})
		return err
	}))
	reader.visit(t, s.url+link.URL)
	reader.until(t, "the drawn chart", "document.querySelector('figure[data-drawn=true] svg') !== null")
	page := eval[string](t, reader, "document.documentElement.lang + ' ' + document.body.innerText")
	for _, want := range []string{"de ", "Assistent", "Nutzer", "Unterbrochen", "Sales of this year", chartWords} {
		if !strings.Contains(page, want) {
			t.Errorf("the shared page has no %q: %s", want, page)
		}
	}
	if strings.Contains(page, "my best wishes") {
		t.Errorf("the shared page has words that nobody has heard: %s", page)
	}
	if roles := eval[string](t, reader, "['header', 'main', 'article h2', 'link[rel=icon]'].filter((part) => !document.querySelector(part)).join()"); roles != "" {
		t.Errorf("the shared page has no %s", roles)
	}
	reader.wantAccessible(t, "shared")
	reader.look(t, "shared-german")
}
