package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
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

// litWord is up to which letter an answer was lit, and when, in milliseconds.
type litWord struct {
	Letters int
	At      float64
}

// listenTo lets the simulator of a live call tell a long story, and returns when which words were lit, and when its sound began and ended.
func listenTo(t *testing.T, p *tab, words string) (lit []litWord, began, ended float64) {
	t.Helper()
	p.do(t, "watch the words", chromedp.Evaluate[chromedp.Void](litWords))
	p.talk(t, words)
	const when = "probe.events.find(({ way, event }) => way === 'in' && event.type === 'output_audio_buffer.%s')"
	p.until(t, "the end of the story", fmt.Sprintf(when, "stopped"))
	began = eval[float64](t, p, fmt.Sprintf(when, "started")+".at")
	ended = eval[float64](t, p, fmt.Sprintf(when, "stopped")+".at")
	return eval[[]litWord](t, p, "probe.lit"), began, ended
}

// TestPageLightsWords lights the words of a long story one after the other while it sounds, and all of them at its end.
func TestPageLightsWords(t *testing.T) {
	t.Parallel()
	cfg := speaking(tellsLong)
	s := serveWith(t, persistencetest.SQLiteURL(t), cfg)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	lit, began, ended := listenTo(t, p, cfg.Script.Spoken[0].Transcript)
	if len(lit) < 10 || lit[0].At < began || lit[len(lit)-1].At > ended+1000/60 {
		t.Errorf("words were lit %d times, between %.0f and %.0f ms of their sound: %v", len(lit), began, ended, lit)
	}
	for n := 1; n < len(lit); n++ {
		if lit[n].Letters < lit[n-1].Letters {
			t.Errorf("words were lit up to letter %d after letter %d", lit[n].Letters, lit[n-1].Letters)
		}
	}
	p.until(t, "all words lit", "!(CSS.highlights.get('unsaid')?.size > 0)")
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
	p.until(t, "the story", fmt.Sprintf("%s > %d && probe.all('stage-captions')[0]?.innerText.includes('how a call travels') && ((unsaid) => unsaid.some((words) => words.includes('small packets')) && !unsaid.some((words) => words.includes('call travels')))([...CSS.highlights.get('unsaid') ?? []].map(String))", begun, before))
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
	testkit.Equal(t, eval[string](t, reader, "['header', 'main', 'article h2', 'link[rel=icon]'].filter((part) => !document.querySelector(part)).join()"), "", "the shared page has no")
	reader.wantAccessible(t, "shared")
	reader.look(t, "shared-german")
}
