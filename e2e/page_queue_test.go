package e2e

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// queueShot is a file for a picture of the page with a queue.
var queueShot = flag.String("queue-screenshot", "", "file for a picture of the page while messages wait")

// TestPageQueue types while the assistant is busy: waiting messages are shown, can be
// moved, changed and removed, and are sent in order. A change that comes too late is not lost.
func TestPageQueue(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	m := newModel(t, func(words string) {
		if words == "What is the weather?" {
			<-hold
		}
	})
	settings := write(t, "conversations:\n  queue: {max_size: 3}\n")
	s := serveWith(t, persistencetest.SQLiteURL(t), simulator.Config{}, append(m.environ(), "VOICEBRIDGE_CONFIG="+settings)...)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.say(t, "What is the weather?")
	m.until(t, 1)
	for _, words := range []string{"Book a table", "Call my sister", "Water the plants"} {
		p.say(t, words)
		p.until(t, "a message that waits", "probe.all('queue-item').some((li) => li.textContent.includes('"+words+"'))")
	}
	p.until(t, "a full queue", "probe.all('queue-full')[0].textContent === 'The queue is full: 3 of 3' && probe.all('queue-count')[0].textContent === '3 of 3'")
	p.until(t, "titles", "probe.all('queue-item').length === 3 && !probe.all('message').some((m) => m.textContent.includes('Book'))")
	if *queueShot != "" {
		raw := run(t, p, "take a picture", chromedp.CaptureScreenshot())
		must(t, os.WriteFile(*queueShot, raw, 0o644))
	}
	p.do(t, "move the last up", chromedp.Evaluate[chromedp.Void]("(probe.all('queue-up')[2].click(), undefined)"))
	p.until(t, "the new order", "probe.all('queue-item').findIndex((li) => li.textContent.includes('plants')) === 1")
	p.do(t, "remove the first", chromedp.Evaluate[chromedp.Void]("(probe.all('queue-remove')[0].click(), undefined)"))
	p.until(t, "two that wait", "probe.all('queue-item').length === 2 && probe.all('queue-full').length === 0")
	p.do(t, "begin to change the last", chromedp.Evaluate[chromedp.Void]("(probe.all('queue-edit')[1].click(), undefined)"), chromedp.SendKeys(byID("queue-text"), "today"))
	release()
	p.untilMessage(t, "assistant text completed", "re Call my sister")
	p.until(t, "what was too late, in the box", "['Call my sister', 'today'].every((words) => probe.all('textbox')[0].value.includes(words))")
	p.until(t, "no queue", "probe.all('queue-panel').length === 0")
	want := []string{"What is the weather?", "re What is the weather?", "Water the plants", "re Water the plants", "Call my sister", "re Call my sister"}
	testkit.Equal(t, s.rows(t, "SELECT text FROM messages ORDER BY seq"), want, "the thread")
	if rows := s.rows(t, "SELECT state FROM queued_messages"); strings.Join(rows, " ") != "sent sent" {
		t.Errorf("the rows of the queue are %q", rows)
	}
}
