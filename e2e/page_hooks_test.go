package e2e

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// TestPageHooks makes a hook in the page, sends it a test, sees it fail and succeed after "send again", pauses and deletes it.
func TestPageHooks(t *testing.T) {
	t.Parallel()
	answers := make(chan int, 64)
	answers <- http.StatusInternalServerError
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case status := <-answers:
			w.WriteHeader(status)
		default:
		}
	}))
	t.Cleanup(receiver.Close)
	host := strings.TrimPrefix(receiver.URL, "http://")
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+write(t, "hooks: {allow: [\""+host+"\"]}\n"+rigSettings))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "the page", "probe.all('textbox').length === 1")
	p.pressID(t, "menu-settings")
	p.pressID(t, "show-hooks")
	p.pressID(t, "add-hook")
	p.until(t, "the form", "probe.all('hook-form').length === 1")
	p.fill(t, "hook-url", "https://127.0.0.1:9/inside")
	p.pressID(t, "hook-save")
	p.until(t, "the server's refusal", "probe.all('hook-problem').length === 1")
	p.fill(t, "hook-url", receiver.URL+"/hook")
	p.pressID(t, "hook-save")
	p.until(t, "the secret", "probe.all('hook-secret')[0]?.innerText.includes('whsec_') && probe.all('hook').length === 1")
	p.pressID(t, "hook-test")
	p.until(t, "a delivery that the receiver refused", "probe.all('delivery').length === 1 && (probe.all('delivery')[0].innerText.includes('500') || (probe.all('hook-refresh')[0].click(), false))")
	p.wantAccessible(t, "deliveries")
	p.look(t, "deliveries")
	p.until(t, "a delivery that arrived", "probe.all('delivery')[0]?.dataset.state === 'delivered' || (probe.all('delivery-retry')[0]?.click(), false)")
	p.pressID(t, "hook-pause")
	p.until(t, "a pause", "probe.all('hook')[0]?.dataset.enabled === 'false'")
	p.atEachSize(t, "hooks-panel", fromSettings("show-hooks"))
	p.pressID(t, "menu-settings")
	p.pressID(t, "show-hooks")
	p.until(t, "the hook, without its secret", "probe.all('hook').length === 1 && probe.all('hook-secret').length === 0")
	p.until(t, "the colour of danger", dangerIsRed)
	p.pressID(t, "hook-delete")
	p.until(t, "the colour of danger", dangerIsRed)
	p.pressID(t, "removal-agree")
	p.until(t, "no hook", "probe.all('hook').length === 0 && probe.all('add-hook').length === 1")
}

// TestPageShareAndErase makes and withdraws a link in the page, reads the thread by it, and exports and erases everything.
func TestPageShareAndErase(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "the page", "probe.all('textbox').length === 1")
	p.say(t, "What is shared?")
	p.until(t, "the end of the turn", "probe.messages().some((m) => m.role === 'assistant' && m.status !== 'in_progress')")
	p.pressID(t, "menu-share")
	p.pressID(t, "share-make")
	p.until(t, "the link", "probe.all('share-link')[0]?.value.includes('/s/')")
	p.until(t, "that it says so", "probe.all('public').length === 1")
	p.reload(t)
	p.until(t, "that it says so to whoever comes back", "probe.all('public').length === 1")
	p.pressID(t, "public")
	p.until(t, "the same link", "probe.all('share-link')[0]?.value.includes('/s/')")
	p.wantAccessible(t, "share")
	p.look(t, "share")
	link := eval[string](t, p, "probe.all('share-link')[0].value")
	path := strings.TrimPrefix(link, s.url)
	if got := s.do(t, http.MethodGet, path, "", ""); got.status != http.StatusOK || !strings.Contains(got.body, "What is shared?") {
		t.Errorf("the link %s: %d, %s", link, got.status, got.body)
	}
	p.pressID(t, "share-withdraw")
	p.until(t, "no link", "probe.all('public').length === 0 && probe.all('share-link').length === 0 && probe.all('share-said')[0].innerText !== ''")
	if got := s.do(t, http.MethodGet, path, "", ""); got.status != http.StatusNotFound {
		t.Errorf("a link that was withdrawn: %d", got.status)
	}
	p.pressID(t, "menu-settings")
	p.until(t, "the export", "probe.all('export-everything').length === 1")
	archive := s.do(t, http.MethodGet, strings.TrimPrefix(eval[string](t, p, "probe.all('export-everything')[0]?.href ?? ''"), s.url), "", "")
	if _, err := zip.NewReader(bytes.NewReader([]byte(archive.body)), int64(len(archive.body))); err != nil {
		t.Errorf("the archive: %d, %v", archive.status, err)
	}
	p.until(t, "the colour of danger", dangerIsRed)
	p.pressID(t, "erase-everything")
	p.until(t, "the question", "probe.all('erase-sure')[0]?.disabled")
	p.fill(t, "erase-word", "yes")
	p.until(t, "another word does not do", "probe.all('erase-sure')[0].disabled")
	p.wantAccessible(t, "erase")
	p.look(t, "erase")
	p.fill(t, "erase-word", "erase")
	p.do(t, "remember the page", chromedp.Evaluate[chromedp.Void]("(document.body.dataset.old = 'true', undefined)"))
	p.pressID(t, "erase-sure")
	p.do(t, "see the page anew", chromedp.WaitVisible(chromedp.CSS("body:not([data-old]) [data-testid=textbox]")), chromedp.Evaluate[chromedp.Void](probe))
	p.until(t, "an empty page", "probe.all('textbox').length === 1 && probe.all('thread-item').length === 0 && location.hash === ''")
	if threads := s.rows(t, "SELECT id FROM threads"); len(threads) != 0 {
		t.Errorf("%d threads are left", len(threads))
	}
	p.atEachSize(t, "settings", "probe.all('menu-settings')[0].click()")
}

// dangerIsRed is true once there are dangerous buttons, and each is written in the colour of danger.
const dangerIsRed = `(() => {
	const probe = document.body.appendChild(document.createElement('i'));
	probe.style.color = 'var(--danger)';
	const red = getComputedStyle(probe).color, all = [...document.querySelectorAll('.btn.danger')];
	probe.remove();
	return all.length > 0 && all.every((one) => getComputedStyle(one).color === red);
})()`
