package e2e

import (
	"slices"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// sending is the number of texts that the page shows as on their way.
const sending = "document.querySelectorAll('[data-sending=true]').length"

// TestPageTextsArrive types into calls while the server does not answer, while their path is cut, and before the server is
// killed or the page reloaded. Each text is shown as being sent until it is saved, which happens once, in order.
func TestPageTextsArrive(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), slices.Concat(waiting, []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"})...)
	door := newDetours(t, s.url)
	p := openBrowser(t)
	p.visit(t, door.URL)
	stop := func() { must(t, s.cmd.Process.Signal(syscall.SIGSTOP)) }
	goOn := func() { must(t, s.cmd.Process.Signal(syscall.SIGCONT)) }
	call := func() {
		t.Helper()
		p.click(t, "talk")
		p.untilLive(t)
	}

	call()
	stop()
	p.say(t, "First.")
	p.say(t, "Second.")
	p.until(t, "two texts on their way", sending+" === 2 && probe.all('textbox')[0].value === ''")
	p.wantAccessible(t, "with a text on its way")
	p.look(t, "sending")
	goOn()
	p.untilMessage(t, "user text completed", "First.")
	p.untilMessage(t, "user text completed", "Second.")
	p.until(t, "nothing on its way", sending+" === 0")

	door.cut()
	p.say(t, "Third.")
	p.say(t, "Fourth.")
	p.click(t, "hangup")
	p.untilMessage(t, "user text completed", "Third.")
	p.untilMessage(t, "user text completed", "Fourth.")
	p.untilOver(t)

	call()
	stop()
	p.say(t, "Fifth.")
	p.click(t, "hangup")
	p.untilOver(t)
	p.until(t, "a text on its way after the call", sending+" === 1")
	goOn()
	p.untilMessage(t, "user text completed", "Fifth.")

	call()
	stop()
	p.say(t, "Sixth.")
	s.kill()
	p.click(t, "hangup")
	p.untilOver(t)
	p.until(t, "a text on its way to no server", sending+" === 1")
	s.start()
	p.untilMessage(t, "user text completed", "Sixth.")

	call()
	door.cut()
	p.say(t, "Seventh.")
	p.reload(t)
	p.until(t, "the way back", "probe.all('rejoin').length === 1")
	p.until(t, "a text that waits for the call", sending+" === 1")
	p.click(t, "rejoin")
	p.untilLive(t)
	p.untilMessage(t, "user text completed", "Seventh.")
	p.until(t, "nothing on its way", sending+" === 0")
	p.click(t, "hangup")
	p.untilOver(t)

	var said []string
	for _, m := range s.messages(t, p.thread(t)) {
		if m.Role == thread.RoleUser {
			said = append(said, m.Text())
		}
	}
	testkit.Equal(t, said, []string{"First.", "Second.", "Third.", "Fourth.", "Fifth.", "Sixth.", "Seventh."}, "the thread")
}

// TestPageAnswersWhatACallLeft hangs up before an answer to what was typed: the page says so, also after a reload, and has it answered.
func TestPageAnswersWhatACallLeft(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.do(t, "keep the model from answering", chromedp.Evaluate[chromedp.Void](`((send) => {
		probe.channel.send = function (data) { if (!data.includes('response.create')) send.call(this, data); };
	})(probe.channel.send), undefined`))
	p.say(t, "Is anybody there?")
	p.untilMessage(t, "user text completed", "Is anybody there?")
	p.until(t, "nothing of it during the call", "probe.all('unanswered').length === 0")
	p.click(t, "hangup")
	p.untilOver(t)
	p.until(t, "that it was not answered", "probe.all('unanswered').length === 1")
	p.wantAccessible(t, "unanswered")
	p.reload(t)
	p.until(t, "that it was not answered, after a reload", "probe.all('unanswered').length === 1")
	p.click(t, "answer-now")
	p.until(t, "the answer", "probe.message('assistant text completed', '') && probe.all('unanswered').length === 0")
}
