package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// fixedAssistant is the operator's.
const fixedAssistant = "assistants: [{name: Front desk, description: Knows the house., instructions: You are the front desk.}]\n"

// fill puts a text in a field of a form.
func (p *tab) fill(t *testing.T, id, text string) {
	t.Helper()
	p.until(t, "the field "+id, fmt.Sprintf("probe.all(%q).length === 1", id))
	p.do(t, "fill "+id, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`((field) => {
		field.value = %s;
		['input', 'change'].forEach((name) => field.dispatchEvent(new Event(name, { bubbles: true })));
	})(probe.all(%q)[0]), undefined`, quoted(text), id)))
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// press clicks an element that may have to be scrolled to.
func (p *tab) pressID(t *testing.T, id string) {
	t.Helper()
	p.until(t, id, fmt.Sprintf("probe.all(%q).length > 0 && !probe.all(%[1]q)[0].disabled", id))
	p.do(t, "press "+id, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("probe.all(%q)[0].click(), undefined", id)))
}

// fromSettings opens the settings and what a button there leads to, which is loaded late.
func fromSettings(button string) string {
	return fmt.Sprintf(`(probe.all('about')[0].click(), new MutationObserver((_, watch) => {
		const button = probe.all(%q)[0];
		if (button) (watch.disconnect(), button.click());
	}).observe(document.body, { childList: true, subtree: true }))`, button)
}

// atEachSize looks at a panel on a phone and on a desktop, light and dark, in German.
func (p *tab) atEachSize(t *testing.T, name, shown string) {
	t.Helper()
	for _, scene := range []struct {
		theme, language string
		width, height   int64
	}{{"light", "en", 1440, 900}, {"dark", "en", 1440, 900}, {"light", "de", 390, 844}, {"dark", "de", 390, 844}} {
		p.do(t, "change the window", chromedp.EmulateViewport(scene.width, scene.height))
		p.do(t, "choose colours and a language", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(localStorage.setItem('voicebridge-theme', %q), localStorage.setItem('voicebridge-language', %q), undefined)", scene.theme, scene.language)))
		p.reload(t)
		p.until(t, "the page", "probe.all('textbox').length === 1")
		p.do(t, shown, chromedp.Evaluate[chromedp.Void](shown+", undefined"))
		p.until(t, name, fmt.Sprintf("probe.all(%q).length === 1", name))
		p.until(t, "a panel that has risen", fmt.Sprintf("getComputedStyle(probe.all(%q)[0].closest('.sheet')).opacity === '1'", name))
		p.until(t, "nothing that is wider than the panel", fmt.Sprintf("(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(probe.all(%q)[0].closest('.body') ?? probe.all(%[1]q)[0])", name))
		p.wantAccessible(t, fmt.Sprintf("%s, %s, %d", name, scene.theme, scene.width))
		p.look(t, fmt.Sprintf("%s-%s-%d", name, scene.theme, scene.width))
	}
	p.do(t, "change the window", chromedp.EmulateViewport(1440, 900))
	p.do(t, "choose English", chromedp.Evaluate[chromedp.Void]("localStorage.clear(), undefined"))
	p.reload(t)
	p.until(t, "the page", "probe.all('textbox').length === 1")
}

// TestPageAssistants makes, changes, copies and deletes an assistant in the page and tries it beside its form; what is the
// operator's cannot be changed. The simulator sees what the form says.
func TestPageAssistants(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+write(t, fixedAssistant+rigSettings))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "the page", "probe.all('textbox').length === 1")
	p.pressID(t, "about")
	p.pressID(t, "show-assistants")
	p.until(t, "the operator's assistant", "probe.all('assistant-item').length === 1 && probe.all('fixed-badge').length === 1 && probe.all('delete-assistant').length === 0")
	p.pressID(t, "edit-assistant")
	p.until(t, "fields that cannot be changed", "probe.all('assistant-fixed').length === 1 && probe.all('field-name')[0].readOnly && probe.all('assistant-save').length === 0")
	p.pressID(t, "assistant-back")
	p.pressID(t, "add-assistant")
	p.until(t, "four fields", "['field-name', 'field-instructions', 'choose-voice', 'field-greeting'].every((id) => probe.all(id).length === 1) && !probe.all('advanced')[0].open")
	p.until(t, "all other fields of the schema", `['variables', 'voice.voice', 'voice.turn_detection.type', 'text.model', 'limits.max_minutes', 'history.max_turns', 'http_tools', 'extract', 'shared', 'recording']
		.filter((name) => probe.all('field-' + name).length !== 1).join() === ''`)
	p.fill(t, "field-name", "Empfang")
	p.until(t, "that it is saved as it is written", "probe.all('assistant-saved')[0].innerText === 'Saved'")
	inside := func(field, button string) {
		t.Helper()
		p.do(t, button+" of "+field, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector('[data-testid=field-%s] [data-testid=%s]').click(), undefined", field, button)))
	}
	inside("variables", "row-add")
	p.fill(t, "row-name", "shop")
	p.fill(t, "row-text", "Annas Laden")
	p.until(t, "the variables that exist", "probe.all('variables')[0].textContent.includes('{{shop}}')")
	p.fill(t, "field-voice.speed", "7")
	p.until(t, "the server's word on a bad value", "probe.all('assistant-problem')[0]?.innerText.includes('voice.speed')")
	p.fill(t, "field-voice.speed", "")
	p.until(t, "that it is mended", "probe.all('assistant-problem').length === 0")
	inside("http_tools", "item-add")
	p.fill(t, "field-http_tools.name", "order")
	p.fill(t, "field-http_tools.url", "https://example.org/order")
	p.until(t, "the secret, once it has tools", "probe.all('assistant-secret')[0]?.textContent.includes('whsec_')")
	p.pressID(t, "item-remove")
	p.until(t, "no secret", "probe.all('assistant-secret').length === 0")
	p.fill(t, "field-instructions", "Du bist der Empfang von {{shop}}.")
	p.fill(t, "choose-voice", "cedar")
	p.fill(t, "which-tools", "none")
	p.fill(t, "field-shared", "true")
	p.fill(t, "field-greeting", "Guten Tag!")
	p.pressID(t, "close-panel") // nothing of it is lost
	testkit.Eventually(t, "that it is all saved", func() bool {
		saved := s.do(t, http.MethodGet, "/api/assistants/empfang", "", "").body
		return strings.Contains(saved, `"greeting":"Guten Tag!"`) && strings.Contains(saved, `"shared":true`) && strings.Contains(saved, `"shop":"Annas Laden"`)
	})
	p.pressID(t, "about")
	p.pressID(t, "show-assistants")
	p.until(t, "the list", "probe.all('edit-assistant').length === 2")
	p.do(t, "change", chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-id=empfang] [data-testid=edit-assistant]').click(), undefined"))
	p.pressID(t, "assistant-try")
	p.untilLive(t)
	p.until(t, "the form beside the call", "probe.all('assistant-form').length === 1 && probe.all('field-greeting')[0].value === 'Guten Tag!'")
	p.click(t, "hangup")
	p.untilOver(t)
	sent := written(s.sim.Sessions()[len(s.sim.Sessions())-1].Received())
	for _, want := range []string{"Du bist der Empfang von Annas Laden.", "cedar", "Guten Tag!"} {
		if !strings.Contains(sent, want) {
			t.Errorf("the upstream has not got %q", want)
		}
	}
	if strings.Contains(sent, `"changeBrowserTheme"`) {
		t.Error("an assistant without tools has the page's")
	}
	p.pressID(t, "more")
	p.pressID(t, "menu-thread")
	p.until(t, "whose conversation it is", "probe.all('choose-assistant')[0]?.value === 'empfang' && probe.all('assistant-facts')[0].innerText.includes('cedar')")
	p.fill(t, "choose-assistant", "front-desk")
	p.until(t, "another one", "probe.all('choose-assistant')[0]?.value === 'front-desk' && probe.all('assistant-said').length === 1")
	p.pressID(t, "all-assistants")
	p.until(t, "the list", "probe.all('copy-assistant').length === 2")
	p.do(t, "copy", chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-id=empfang] [data-testid=copy-assistant]').click(), undefined"))
	p.pressID(t, "assistant-back")
	p.until(t, "three", "probe.all('assistant-item').length === 3 && probe.all('shared-badge').length === 1")
	p.do(t, "delete the copy", chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-id=empfang-copy] [data-testid=delete-assistant]').click(), undefined"))
	p.pressID(t, "removal-agree")
	p.until(t, "two", "probe.all('assistant-item').length === 2")

	p.atEachSize(t, "assistants-panel", fromSettings("show-assistants"))
	p.pressID(t, "about")
	p.pressID(t, "show-assistants")
	p.do(t, "open the form", chromedp.EmulateViewport(1440, 900))
	p.until(t, "the list", "probe.all('edit-assistant').length === 2")
	p.do(t, "change", chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-id=empfang] [data-testid=edit-assistant]').click(), undefined"))
	p.until(t, "the form", "probe.all('assistant-form').length === 1")
	p.wantAccessible(t, "form")
	p.look(t, "form")
	if saved := s.do(t, http.MethodGet, "/api/assistants/empfang", "", ""); saved.status != http.StatusOK || !strings.Contains(saved.body, `"shared":true`) {
		t.Errorf("GET: %d, %s", saved.status, saved.body)
	}
}
