package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// press presses and releases one key, as a person does. (SendKeys of "\r" presses Enter twice.)
func (p *tab) press(t *testing.T, key string, code int64) {
	t.Helper()
	p.do(t, "press "+key, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: key, Code: key, WindowsVirtualKeyCode: code}
		switch key {
		case "Enter":
			down.Type, down.Text = input.DispatchKeyEventTypeKeyDown, "\r"
		case " ":
			down.Type, down.Text, down.Code = input.DispatchKeyEventTypeKeyDown, " ", "Space"
		}
		up := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key, Code: down.Code, WindowsVirtualKeyCode: code}
		if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, down); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, input.DispatchKeyEvent, up)
		return err
	}))
}

func (p *tab) enter(t *testing.T) {
	t.Helper()
	p.press(t, "Enter", 13)
}

// downloads saves what the tab downloads in a folder.
func (p *tab) downloads(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	p.do(t, "keep downloads", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
			BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID,
		})
		return err
	}))
	return folder
}

// TestPageFindsAndKeeps searches everything said, jumps to a match in a long thread,
// renames a thread, undoes one deletion and lets another happen, and exports; a second tab
// sees all of it.
func TestPageFindsAndKeeps(t *testing.T) {
	t.Parallel()
	database, long := longThread(t, 600)
	s := serveWith(t, database, speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	other := newThread(t, s.url)
	p := openBrowser(t)
	p.visit(t, s.url)
	folder := p.downloads(t)
	item := func(id string) string {
		return fmt.Sprintf("probe.all('thread-item').find((i) => i.dataset.id === %q)", id)
	}
	p.until(t, "two conversations", "probe.all('thread-item').length === 2")

	p.do(t, "search", chromedp.SendKeys(byID("search"), "nobodysaidthis"))
	p.until(t, "nothing found", "probe.all('search-results')[0]?.innerText === 'Nothing found for “nobodysaidthis”.'")
	p.press(t, "Escape", 27)
	p.until(t, "the list again", "probe.all('search-results').length === 0 && probe.all('thread-item').length === 2")
	p.do(t, "search", chromedp.SendKeys(byID("search"), "answer 137"))
	p.until(t, "one conversation", "probe.all('search-results').length === 1 && probe.all('thread-item').length === 1 && "+item(long)+" !== undefined")
	p.until(t, "the sentence, with its words marked", "probe.all('match')[0]?.innerText.includes('Answer 137') && [...(CSS.highlights.get('found') ?? [])].map(String).filter(Boolean).join(' ') === 'Answer 137'")
	p.wantAccessible(t, "found")
	p.look(t, "found")
	p.do(t, "open it", chromedp.Click(chromedp.CSS("[data-testid=search-results] a")))
	p.until(t, "the message in view, with its words marked", `(() => {
		const found = probe.all('message').find((m) => m.innerText.includes('Answer 137'));
		const box = document.getElementById('transcript').getBoundingClientRect();
		const at = found?.getBoundingClientRect();
		const marked = [...(CSS.highlights.get('found') ?? [])].map(String);
		return at && at.bottom > box.top && at.top < box.bottom && marked.includes('Answer') && marked.includes('137');
	})()`)
	p.until(t, "how many there are", "probe.all('find-count')[0].innerText === '1 of 1'")
	p.wantAccessible(t, "jumped")
	p.look(t, "jumped")

	watcher := p.another(t)
	watcher.visit(t, s.url)
	p.do(t, "rename", chromedp.Click(chromedp.CSS("[data-testid=rename-thread]")), chromedp.SendKeys(byID("rename-input"), "Lists of things"))
	p.enter(t)
	for _, tab := range []*tab{p, watcher} {
		tab.until(t, "the new title", item(long)+"?.innerText.trim().startsWith('Lists of things')")
	}
	p.until(t, "the focus where it was", "document.activeElement.dataset.testid === 'rename-thread'")

	p.click(t, "more")
	for _, format := range []string{"markdown", "json"} {
		p.do(t, "export "+format, chromedp.Evaluate[chromedp.Void]("(probe.all('export-"+format+"')[0].click(), undefined)"))
	}
	testkit.Eventually(t, "two files", func() bool {
		files, _ := filepath.Glob(filepath.Join(folder, "*"))
		var unfinished int
		for _, f := range files {
			if info, err := os.Stat(f); strings.HasSuffix(f, ".crdownload") || err != nil || info.Size() == 0 {
				unfinished++
			}
		}
		return len(files) == 2 && unfinished == 0
	})
	files, _ := filepath.Glob(filepath.Join(folder, "*.md"))
	if len(files) != 1 {
		t.Errorf("files of Markdown: %q", files)
	} else if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "Lists of things") || !strings.Contains(string(text), "Answer 599") {
		t.Errorf("%s has %.200s, %v", files[0], text, err)
	}

	remove := chromedp.Click(chromedp.CSS(fmt.Sprintf("[data-testid=thread-item][data-id=%q] [data-testid=delete-thread]", other)))
	p.do(t, "show the list", chromedp.Evaluate[chromedp.Void]("(document.querySelector('[data-testid=search]').focus(), undefined)"))
	p.press(t, "Escape", 27)
	p.do(t, "delete", chromedp.Evaluate[chromedp.Void]("("+item(other)+".querySelector('a').focus(), undefined)"), remove)
	p.untilNotice(t, "deleted", "was deleted.")
	p.until(t, "one conversation less", item(other)+" === undefined")
	p.click(t, "notice-action") // it goes away by itself
	p.until(t, "the conversation again", item(other)+" !== undefined && !probe.notice('deleted', '')")
	if rows := s.rows(t, "SELECT id FROM threads"); len(rows) != 2 {
		t.Errorf("threads %q", rows)
	}
	p.do(t, "delete", chromedp.Evaluate[chromedp.Void]("("+item(other)+".querySelector('a').focus(), undefined)"), remove)
	p.untilNotice(t, "deleted", "was deleted.")
	p.wantAccessible(t, "deleted")
	p.reload(t) // leaving does not undo it
	watcher.until(t, "that it is gone elsewhere", item(other)+" === undefined && probe.all('thread-item').length === 1")
	p.until(t, "that it is gone", "probe.all('thread-item').length === 1")
	testkit.Eventually(t, "that it is erased", func() bool {
		return slices.Equal(s.rows(t, "SELECT title FROM threads"), []string{"Lists of things"})
	})
}

// TestPageAnswersElsewhere shows a thread in two windows while its call asks for approval:
// both ask, the answer in the window without the call counts, and no window asks twice.
func TestPageAnswersElsewhere(t *testing.T) {
	t.Parallel()
	settings := write(t, "tools: {approve: [create_bar_chart]}\n")
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+settings)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	second := p.another(t)
	second.visit(t, s.url+"/#/t/"+p.thread(t))
	second.until(t, "the call elsewhere", "probe.all('live-elsewhere').length === 1")
	for _, answer := range []string{"deny", "approve"} {
		p.say(t, chartWords)
		for _, tab := range []*tab{p, second} {
			tab.until(t, "the question", "probe.all('approval-dialog').length === 1")
		}
		second.wantAccessible(t, "asked elsewhere")
		second.click(t, answer)
		for _, tab := range []*tab{p, second} {
			tab.until(t, "no question", "probe.all('approval-dialog').length === 0")
		}
		p.until(t, "the end of the answer", "probe.messages().at(-1).role === 'assistant' && probe.messages().at(-1).status === 'completed'")
		p.untilSilent(t)
	}
	second.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.click(t, "hangup")
	p.untilOver(t)
	s.untilEnded(t, 1)
}
