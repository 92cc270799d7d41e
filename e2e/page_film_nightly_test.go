//go:build nightly

package e2e

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// go test -tags nightly ./e2e -run '^TestPageFilm$' -args -film .. makes the pictures of the README and of links that are shared anew.
var film = flag.String("film", "", "root of the checkout in which docs/film.png and web/ui/public/preview.png are made anew")

// filmPage lays out six pictures of a phone above two of a desktop.
const filmPage = `<!doctype html><style>
	body { margin: 0; padding: 16px; width: 1466px; display: flex; flex-wrap: wrap; gap: 16px; background: #fff; }
	img { box-sizing: border-box; border: 1px solid #c9c5bb; border-radius: 12px; width: 231px; height: 500px; }
	img:nth-child(n+7) { width: 725px; height: 453px; }
</style>%s`

// previewPage is what messengers show of a link to a conversation: the program's sign beside the outline of a conversation.
const previewPage = `<!doctype html><style>
	body { margin: 0; width: 1200px; height: 630px; display: grid; grid-template-columns: 420px 1fr; align-items: center; gap: 70px; padding: 0 90px;
		box-sizing: border-box; background: #f6f4ef; color: #1f1e1b; font: 600 58px system-ui, sans-serif; }
	svg { width: 220px; display: block; margin-bottom: 36px; }
	p { margin: 0 0 26px; height: 76px; border-radius: 38px; background: #fff; border: 2px solid #e3dfd5; }
	p:nth-child(odd) { margin-left: 130px; background: #dce9e3; border-color: #cfe0d8; }
	p:nth-child(2) { width: 440px; height: 130px; } p:nth-child(4) { width: 360px; }
</style><div>%s voicebridge</div><div><p></p><p></p><p></p><p></p></div>`

// TestPageFilm walks through a conversation, and puts eight moments of it into the picture of the README.
func TestPageFilm(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	size := func(p *tab, width, height int64) {
		t.Helper()
		p.do(t, "change the window", chromedp.EmulateViewport(width, height))
	}
	shot := func(p *tab) string {
		t.Helper()
		p.until(t, "a page at rest", "document.getAnimations().every((a) => !(a instanceof CSSTransition))")
		raw := run(t, p, "take a picture", chromedp.CaptureScreenshot())
		return `<img src="data:image/png;base64,` + base64.StdEncoding.EncodeToString(raw) + `">`
	}
	// spoken is when part of an answer has been said, and part of it has not.
	const spoken = "(([range]) => range && String(range).length > 10 && String(range).length < range.endContainer.textContent.length - 12)([...CSS.highlights.get('unsaid') ?? []])"

	listening := func() {
		t.Helper()
		p.until(t, "that it listens", "probe.all('call-state')[0].dataset.word === 'listening'")
	}

	size(p, 1440, 900)
	p.media(t, "prefers-color-scheme", "light")
	p.visit(t, s.url)
	p.until(t, "an empty page", "probe.all('empty').length === 1")
	p.click(t, "talk")
	p.untilLive(t)
	p.speak(t)
	p.until(t, "words that are said", spoken)
	desktop := shot(p)
	p.click(t, "hangup")
	p.untilOver(t)
	p.click(t, "new-thread")

	size(p, 390, 844)
	p.until(t, "an empty page", "probe.all('empty').length === 1")
	empty := shot(p)
	p.click(t, "talk")
	p.untilLive(t)
	p.speak(t)
	p.until(t, "the answer", "probe.all('stage-captions')[0]?.innerText.includes('nice to hear')")
	listening()
	p.say(t, "Tell me a long story.")
	p.until(t, "words that are said", spoken)
	speaking := shot(p)
	p.click(t, "stop-talking")
	listening()
	p.say(t, chartWords)
	p.until(t, "a chart on the stage", "document.querySelector('[data-testid=stage-made] "+drawnChart+"') !== null")
	p.until(t, "words about it", "probe.all('stage-captions')[0].innerText.includes('Here is your') && "+spoken)
	chart := shot(p)
	listening()
	p.media(t, "prefers-color-scheme", "dark")
	p.click(t, "call-settings")
	p.until(t, "the settings", "probe.all('close-panel').length === 1")
	settings := shot(p)
	p.click(t, "close-panel")
	p.click(t, "hangup")
	p.untilOver(t)
	s.untilEnded(t, 2)
	p.until(t, "the call's card", "probe.all('call-end').length === 1")
	ended := shot(p)
	size(p, 1440, 900)
	dark := shot(p)

	var link struct{ URL string }
	s.postJSON(t, "/api/threads/"+p.thread(t)+"/share", "", http.StatusOK, &link)
	reader := p.elsewhere(t)
	size(reader, 390, 844)
	reader.do(t, "read German", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "a reader", AcceptLanguage: "de-DE,de"})
		return err
	}))
	reader.visit(t, s.url+link.URL)
	reader.until(t, "the drawn chart", "document.querySelector('figure[data-drawn=true] svg') !== null")
	shared := shot(reader)

	folder := t.ArtifactDir()
	names := map[string]string{"film": filepath.Join(folder, "film.png"), "preview": filepath.Join(folder, "preview.png")}
	icon, err := os.ReadFile("../web/ui/public/icon.svg")
	must(t, err)
	if *film != "" {
		names["film"] = filepath.Join(*film, "docs", "film.png")
		names["preview"] = filepath.Join(*film, "web", "ui", "public", "preview.png")
	}
	for name, text := range map[string]string{
		"film":    fmt.Sprintf(filmPage, strings.Join([]string{empty, speaking, chart, settings, ended, shared, desktop, dark}, "")),
		"preview": fmt.Sprintf(previewPage, icon),
	} {
		page := filepath.Join(t.TempDir(), name+".html")
		must(t, os.WriteFile(page, []byte(text), 0o600))
		size(reader, map[string]int64{"film": 1498, "preview": 1200}[name], map[string]int64{"film": 1001, "preview": 630}[name])
		reader.do(t, "open the "+name, chromedp.Navigate("file://"+page))
		raw := run(t, reader, "take the "+name, chromedp.CaptureScreenshot())
		must(t, os.WriteFile(names[name], raw, 0o644))
	}
}
