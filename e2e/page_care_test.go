package e2e

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// go test -tags nightly ./e2e -run '^TestPageLooks$' -args -pictures DIR takes pictures of the page's
// main states. With -artifacts they are among the artefacts.
var pictures = flag.String("pictures", "", "folder for pictures of the page's main states")

// axe is the accessibility checker of Deque, a copy of the npm package's own file.
//
//go:embed testdata/axe/axe.min.js
var axe string

// wantAccessible checks the page in its current state with axe.
func (p *tab) wantAccessible(t *testing.T, state string) {
	t.Helper()
	p.until(t, "colours at rest", "document.getAnimations().every((a) => !(a instanceof CSSTransition) && (a.effect.getTiming().iterations === Infinity || a.playState !== 'running'))")
	p.do(t, "load axe", chromedp.Evaluate[chromedp.Void](axe+"; undefined"))
	found := eval[json.RawMessage](t, p, `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.target.join(' '))]))`)
	if string(found) != "[]" {
		t.Errorf("%s: axe finds %s", state, found)
	}
}

// look saves a picture of a state, at night as an artefact of the test, or in a folder of the user's choice.
func (p *tab) look(t *testing.T, name string) {
	t.Helper()
	folder := *pictures
	if !night && folder == "" {
		return
	}
	if folder == "" {
		folder = t.ArtifactDir()
	}
	raw := run(t, p, "take a picture", chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(folder, name+".png"), raw, 0o644); err != nil {
		t.Error(err)
	}
}

// inView scrolls to an element and says whether it can be seen and pressed.
const inView = `((id) => { const e = probe.all(id)[0]; e?.scrollIntoView({ block: 'nearest' }); const { x, y, width, height } = e?.getBoundingClientRect() ?? {};
	return e !== undefined && e.contains(document.elementFromPoint(x + width / 2, y + height / 2)); })`

// TestPageInALowWindow enlarges the page four times in a window of 1280 by 1024 pixels: beside
// a call there is room for the thread, and all else is in reach.
func TestPageInALowWindow(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_UPSTREAM=simulator")
	p := openBrowser(t)
	p.do(t, "enlarge it", chromedp.EmulateViewport(320, 256))
	p.visit(t, s.url)
	wantRoom := func(state string) {
		t.Helper()
		if n := eval[int](t, p, "document.getElementById('transcript').clientHeight"); n < 70 {
			t.Errorf("%s: the thread has %d pixels", state, n)
		}
		p.wantAccessible(t, "low, "+state)
		p.look(t, "low-"+state)
	}
	p.until(t, "an empty page", "probe.all('empty').length === 1 && probe.all('upstream-banner').length === 1")
	wantRoom("empty")
	p.until(t, "why a simulator answers, though there is a key", "probe.all('upstream-note')[0].textContent.includes('because VOICEBRIDGE_UPSTREAM says so')")
	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "hang-up", inView+"('hangup')")
	p.until(t, "the box", inView+"('textbox')")
	wantRoom("call")
	p.click(t, "more")
	p.until(t, "the end of the menu", inView+"('menu-settings')")
	p.look(t, "low-menu")
	p.do(t, "close it", chromedp.KeyEvent(kb.Escape))
	p.click(t, "menu")
	p.until(t, "the conversation", inView+"('thread-item')")
	p.look(t, "low-list")
	p.do(t, "close it", chromedp.KeyEvent(kb.Escape))
	p.until(t, "no list", "getComputedStyle(document.querySelector('aside')).visibility === 'hidden'")
	p.click(t, "hangup")
	p.untilOver(t)
	p.until(t, "the banner", "probe.all('upstream-banner').length === 1")
	p.until(t, "the way to close it", inView+"('upstream-away')")
	p.pressID(t, "upstream-away") // what is above it may still grow while a pointer is on its way
	p.until(t, "no banner", "probe.all('upstream-banner').length === 0")
	p.reload(t)
	p.until(t, "the page, and still no banner", "probe.all('talk').length === 1 && probe.all('upstream-banner').length === 0")
}

// longThread makes a thread of many messages in a new database.
func longThread(t *testing.T, messages int) (database, threadID string) {
	t.Helper()
	database = persistencetest.SQLiteURL(t)
	store, err := persistence.Open(t.Context(), database, persistence.Options{})
	must(t, err)
	defer store.Close()
	made, err := store.CreateThread(t.Context(), access.LocalOwner, "A long one")
	must(t, err)
	key := thread.Key{Owner: access.LocalOwner, Thread: made.ID}
	err = store.Batch(t.Context(), key, func(b *persistence.Batch) error {
		for i := range messages {
			m := thread.Message{Role: thread.RoleUser, Metadata: thread.Metadata{Source: thread.SourceText, Status: thread.StatusCompleted}}
			text := fmt.Sprintf("Question %d, about nothing in particular", i)
			if i%2 == 1 {
				m.Role, text = thread.RoleAssistant, fmt.Sprintf("Answer %d has a **list**:\n\n- one thing\n- another\n\nand some words after it.", i)
			}
			m.Parts = []thread.Part{{Type: "text", Text: text}}
			if _, err := b.AppendMessage(m); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	return database, made.ID
}

// TestPageLongThread opens a thread of 2,000 messages: it opens at the end with few
// elements and hardly any layout shift, leaves the end only when the reader scrolls, and
// loads earlier messages.
func TestPageLongThread(t *testing.T) {
	t.Parallel()
	database, thread := longThread(t, 2000)
	s := serveWith(t, database, speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.do(t, "watch the layout", chromedp.Navigate("about:blank"))
	p.visit(t, s.url+"/#/t/"+thread)
	const end = "((b) => b.scrollHeight - b.scrollTop - b.clientHeight < 2)(document.getElementById('transcript'))"
	began := time.Now()
	p.until(t, "the last message at the end", "probe.all('message').at(-1)?.innerText.includes('Answer 1999') && "+end)
	t.Logf("the end was there after %v", time.Since(began).Round(time.Millisecond))
	if n := eval[int](t, p, "document.querySelectorAll('*').length"); n > 3000 {
		t.Errorf("%d elements are drawn", n)
	}
	shift := eval[float64](t, p, `new Promise((done) => { let sum = 0;
		new PerformanceObserver((list) => list.getEntries().forEach((e) => { if (!e.hadRecentInput) sum += e.value; })).observe({ type: 'layout-shift', buffered: true });
		requestAnimationFrame(() => setTimeout(() => done(sum), 100)); })`)
	if shift >= 0.1 {
		t.Errorf("the layout shifted by %.3f", shift)
	}
	p.wantAccessible(t, "a long thread")
	p.do(t, "a scroll that nobody made", chromedp.Evaluate[chromedp.Void]("(document.getElementById('transcript').scrollTop -= 300, undefined)"))
	p.say(t, "Is anybody there?")
	p.untilMessage(t, "assistant text completed", "")
	p.until(t, "the newest in view", end+" && probe.all('latest').length === 0")
	up := func(times int) {
		for range times {
			p.do(t, "turn a page back", chromedp.SendKeys(chromedp.CSS("#transcript"), kb.PageUp))
		}
	}
	up(2)
	p.until(t, "the way back to the end", "probe.all('latest').length === 1 && !("+end+")")
	// Home loads all messages; whoever goes to the end meanwhile stays there.
	p.do(t, "go to the beginning, and to the end at once", chromedp.SendKeys(chromedp.CSS("#transcript"), kb.Home+kb.End))
	p.until(t, "all messages", "document.getElementById('transcript').scrollHeight > 2000 * 40")
	p.until(t, "the end", end+" && probe.all('latest').length === 0")
	p.do(t, "go to the beginning", chromedp.SendKeys(chromedp.CSS("#transcript"), kb.Home))
	p.until(t, "the first message", "probe.all('message')[0].innerText.includes('Question 0,')")
	p.do(t, "go to the end by a key", chromedp.SendKeys(chromedp.CSS("#transcript"), kb.End))
	p.until(t, "the end", end+" && probe.all('latest').length === 0")
	up(30)
	p.until(t, "earlier messages", "probe.all('message').length > 0 && Number(/\\d+/.exec(probe.all('message')[0].querySelector('.bubble').innerText)) < 1960")
	p.click(t, "latest")
	p.until(t, "the end again", end+" && probe.all('latest').length === 0")
}
