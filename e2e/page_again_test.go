package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// TestPageRegenerates has an answer regenerated: the other one is said to its end, and the first one is marked
// as replaced.
func TestPageRegenerates(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.say(t, "Tell me a long story.")
	p.untilMessage(t, "assistant text completed", "That is the whole story.")
	p.until(t, "the answer, sentence by sentence, for who cannot see it", "probe.all('announcer')[0].textContent.length > 0")
	p.do(t, "ask again", chromedp.Evaluate[chromedp.Void]("(probe.all('regenerate').at(-1).click(), undefined)"))
	p.until(t, "the end of another answer", "probe.messages().length === 2 && probe.all('earlier-version').length === 1 && probe.messages().at(-1).status !== 'in_progress'")
	if last := p.messages(t)[1]; last.Status != "completed" || last.Role != "assistant" {
		t.Errorf("the other answer is %+v", last)
	}
	p.click(t, "earlier-version")
	p.until(t, "the first answer", "probe.messages().length === 3 && probe.all('message')[1].dataset.replaced === 'true' && probe.all('earlier-version')[0].ariaExpanded === 'true'")
	p.click(t, "earlier-version")

	// An edit is said anew, and what followed is put away with it.
	p.do(t, "edit", chromedp.Evaluate[chromedp.Void]("(probe.all('edit-message').at(-1).click(), undefined)"))
	p.until(t, "the words, with the focus on them", "document.activeElement.dataset.testid === 'edit-text' && document.activeElement.value === 'Tell me a long story.'")
	p.do(t, "write", chromedp.Evaluate[chromedp.Void]("(document.activeElement.select(), undefined)"), chromedp.KeyEvent("Good evening."))
	p.wantAccessible(t, "editing")
	p.enter(t)
	p.until(t, "the new words with their answer, and the earlier version folded", `(([you, answer, ...others]) =>
		others.length === 0 && you.text.includes('Good evening.') && answer?.role === 'assistant' && answer.status === 'completed' && !answer.text.includes('whole story'))(probe.messages())`)
	p.until(t, "how much is folded", "probe.all('earlier-version').length === 1 && probe.all('earlier-version')[0].innerText === 'Earlier version · 3 messages'")
	p.wantAccessible(t, "edited")
	p.look(t, "edited")
	p.reload(t)
	p.until(t, "the same after a reload", "probe.messages().length === 2 && probe.messages()[0].text.includes('Good evening.') && probe.all('earlier-version').length === 1")

	// A fresh context begins with a line.
	p.click(t, "more")
	p.click(t, "reset")
	p.until(t, "the line at the end", "probe.all('fresh-context').length === 1 && probe.all('fresh-context')[0].getBoundingClientRect().top > probe.all('message').at(-1).getBoundingClientRect().bottom")
	p.say(t, "What did I say?")
	p.untilMessage(t, "user text", "What did I say?")
	p.reload(t)
	p.until(t, "the line where it was", `(([line], [, before, after]) => line?.getBoundingClientRect().top > before?.getBoundingClientRect().bottom - 1 &&
		line.getBoundingClientRect().bottom < after?.getBoundingClientRect().top + 1)(probe.all('fresh-context'), probe.all('message'))`)
	p.wantAccessible(t, "a fresh context")
	p.look(t, "fresh-context")
}

// addNoise adds an image to the message in the box that is larger than what a data channel takes.
const addNoise = `(async () => {
	const canvas = new OffscreenCanvas(600, 600);
	const pixels = new ImageData(600, 600);
	pixels.data.forEach((_, i) => { pixels.data[i] = i % 4 === 3 ? 255 : Math.random() * 256; });
	canvas.getContext('2d').putImageData(pixels, 0, 0);
	const blob = await canvas.convertToBlob();
	const files = new DataTransfer();
	files.items.add(new File([blob], 'noise.png', { type: 'image/png' }));
	const input = probe.all('image-file')[0];
	input.files = files.files;
	input.dispatchEvent(new Event('change', { bubbles: true }));
	return blob.size > 512 << 10;
})()`

// holdUploads lets images wait until probe.upload is called.
const holdUploads = `((send) => { window.fetch = async (url, init) => {
	if (String(url).endsWith('/images')) await new Promise((go) => { probe.upload = go; });
	return send(url, init);
}; })(window.fetch), undefined`

// TestPageKeepsToItsThread sends a message with an image and goes to another thread before the image is
// uploaded. The message gets into the thread it was written in, and what is written in the other one stays
// there, also over a reload, until it is sent into a call. What is not sent when its thread is deleted is kept.
func TestPageKeepsToItsThread(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	first, second := newThread(t, s.url), newThread(t, s.url)
	p := openBrowser(t)
	p.visit(t, s.url+"/#/t/"+first)
	p.do(t, "hold uploads", chromedp.Evaluate[chromedp.Void](holdUploads))
	if !eval[bool](t, p, addNoise) {
		t.Error("the image is small")
	}
	p.until(t, "the image", "probe.all('pictures').length === 1")
	p.say(t, "What is this?")
	p.until(t, "an upload", "probe.upload !== undefined")
	p.do(t, "go elsewhere", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(location.hash = '#/t/%s', undefined)", second)))
	p.until(t, "the other thread", "probe.all('empty').length === 1 && probe.all('pictures').length === 0 && probe.all('textbox')[0].value === ''")
	p.do(t, "type", chromedp.SendKeys(byID("textbox"), "And"))
	p.do(t, "go on", chromedp.Evaluate[chromedp.Void]("(probe.upload(), undefined)"))
	testkit.Eventually(t, "the message and its answer in their thread", func() bool {
		said := s.messages(t, first)
		raw, err := json.Marshal(said)
		return err == nil && len(said) == 2 && said[0].Text() == "What is this?" && strings.Contains(string(raw), "/images/")
	})
	if said := s.messages(t, second); len(said) != 0 {
		t.Errorf("the other thread has %+v", said)
	}

	p.reload(t)
	p.until(t, "the draft", "probe.all('textbox')[0].value === 'And'")
	p.click(t, "talk")
	p.untilLive(t)
	eval[bool](t, p, addNoise)
	p.until(t, "the image", "probe.all('pictures').length === 1")
	p.say(t, " this?")
	p.until(t, "the image in the thread", "document.querySelector('[data-testid=message][data-role=user] img')?.naturalWidth > 0")
	p.untilMessage(t, "user text completed", "And this?")
	testkit.Eventually(t, "an image at the model", func() bool {
		for _, r := range s.upstream(t, 0).Received() {
			if strings.Contains(string(r.Event.Raw), `"input_image"`) && r.Refused == "" {
				return true
			}
		}
		return false
	})
	p.click(t, "hangup")
	p.untilOver(t)

	p.do(t, "type", chromedp.SendKeys(byID("textbox"), "Not yet"))
	p.do(t, "delete the thread elsewhere", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(fetch('api/threads/%s', { method: 'DELETE' }), undefined)", second)))
	p.untilNotice(t, "deleted_elsewhere", "was deleted.")
	p.until(t, "the draft, for another thread", "probe.all('textbox')[0].value === 'Not yet'")
}
