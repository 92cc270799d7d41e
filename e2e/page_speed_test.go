//go:build nightly

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// mainThread is how much of the processor the page's main thread has used, in milliseconds: other load of the machine is
// not in it.
func (p *tab) mainThread(t *testing.T) float64 {
	t.Helper()
	res := run(t, p, "read the time of the main thread", chromedp.Action[performance.GetMetricsResult](
		func(ctx context.Context, target *chromedp.Target) (performance.GetMetricsResult, error) {
			if _, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
				return performance.GetMetricsResult{}, err
			}
			return cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		}))
	for _, m := range res.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value * 1000
		}
	}
	t.Fatal("the browser does not say how long its tasks took")
	return 0
}

// shifted is how far the layout has shifted without the user, as Chromium scores it.
const shifted = `new Promise((done) => { let sum = 0;
	new PerformanceObserver((list) => list.getEntries().forEach((e) => { if (!e.hadRecentInput) sum += e.value; })).observe({ type: 'layout-shift', buffered: true });
	requestAnimationFrame(() => setTimeout(() => done(sum), 100)); })`

// counted is an address that leads to the server, and how many bytes have come from there: bodies as they were sent, headers,
// and what sockets carried.
func counted(t *testing.T, server string) (string, *atomic.Int64) {
	t.Helper()
	var bytes atomic.Int64
	var passing sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { cancel(); l.Close(); passing.Wait() })
	passing.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() {
				far, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
				if err != nil {
					near.Close()
					return
				}
				end := func() { near.Close(); far.Close() }
				defer context.AfterFunc(ctx, end)()
				passing.Go(func() { defer end(); _, _ = io.Copy(far, near) })
				defer end()
				_, _ = io.Copy(near, counting{far, &bytes})
			})
		}
	})
	return "http://" + l.Addr().String(), &bytes
}

// counting counts what is read.
type counting struct {
	io.Reader

	bytes *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// TestPageFirstLoad opens the page on a phone and on a desktop: all that comes over the wire is little, it asks for nothing twice,
// and nothing moves while it is built up.
func TestPageFirstLoad(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_UPSTREAM=simulator")
	first := openBrowser(t)
	for name, size := range map[string][2]int64{"phone": {390, 844}, "desktop": {1440, 900}} {
		p := first.elsewhere(t)
		p.do(t, "choose a window", chromedp.EmulateViewport(size[0], size[1]))
		address, bytes := counted(t, s.url)
		p.visit(t, address)
		p.until(t, "the whole page", "probe.all('suggestion').length === 4 && probe.all('upstream-banner').length === 1")
		wire := bytes.Load()
		asked := eval[map[string]int](t, p, `(() => {
			const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
			const count = (path) => all.filter(({ name }) => new URL(name).pathname.endsWith(path)).length;
			return { requests: all.length, config: count('/api/config'), threads: count('/api/threads') };
		})()`)
		shift := eval[float64](t, p, shifted)
		t.Logf("%s: %d bytes came in %d requests, with headers and what the socket carried; the layout shifted by %.3f", name, wire, asked["requests"], shift)
		if wire < 40_000 || wire > 75_000 {
			t.Errorf("%s: %d bytes came", name, wire)
		}
		if asked["config"] != 1 || asked["threads"] != 1 {
			t.Errorf("%s: the configuration was asked for %d times, the threads %d times", name, asked["config"], asked["threads"])
		}
		if shift > 0.1 {
			t.Errorf("%s: the layout shifted by %.3f", name, shift)
		}
	}
}

// TestPageScrollsFast scrolls through a thread of 5,000 messages, jumps to its first message and to a match in its middle. What that takes of
// the processor is printed; only much more fails.
func TestPageScrollsFast(t *testing.T) {
	t.Parallel()
	database, thread := longThread(t, 5000)
	s := serveWith(t, database, speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	timed := func(what string, do func()) {
		t.Helper()
		began, before := time.Now(), p.mainThread(t)
		do()
		t.Logf("%s took %v, %.0f ms of the main thread", what, time.Since(began).Round(time.Millisecond), p.mainThread(t)-before)
	}
	p.visit(t, s.url+"/#/t/"+thread)
	p.until(t, "the last message", "probe.all('message').at(-1)?.innerText.includes('Answer 4999')")
	const frames = 200
	for _, part := range []string{"with some of them loaded", "with more of them loaded"} {
		before := p.mainThread(t)
		eval[[]float64](t, p, fmt.Sprintf(scrolling+"(%d)", frames))
		used := (p.mainThread(t) - before) / frames
		t.Logf("%s a frame took %.1f ms of the main thread", part, used)
		if used > 60 {
			t.Errorf("%s a frame took %.1f ms of the main thread", part, used)
		}
	}
	p.reload(t)
	p.until(t, "the last message", "probe.all('message').at(-1)?.innerText.includes('Answer 4999')")
	timed("Home", func() {
		p.do(t, "look at the thread", chromedp.Evaluate[chromedp.Void]("(document.getElementById('transcript').focus(), undefined)"))
		p.press(t, "Home", 36)
		p.until(t, "the first message in view", `((m) => m?.innerText.includes('Question 0,') && m.getBoundingClientRect().bottom > 0)(probe.all('message')[0])`)
	})
	p.reload(t)
	p.until(t, "the last message", "probe.all('message').at(-1)?.innerText.includes('Answer 4999')")
	p.do(t, "search", chromedp.SendKeys(byID("search"), "answer 1371"))
	p.until(t, "one conversation", "probe.all('search-results').length === 1 && probe.all('match').length === 1")
	timed("the jump to a match", func() {
		p.do(t, "open it", chromedp.Click(chromedp.CSS("[data-testid=search-results] a")))
		p.until(t, "the match in view", `((m) => { const r = m?.getBoundingClientRect(); return r !== undefined && r.bottom > 60 && r.top < innerHeight; })(probe.all('message').find((m) => m.innerText.includes('Answer 1371 ')))`)
	})
}

// TestPageScrollsStill turns a fast wheel on a phone, up through a long thread and back: a line in view goes as far as the wheel, whatever is
// drawn or loaded above it meanwhile. Chromium's own score is printed only: it counts what is put right in the frame that scrolls.
func TestPageScrollsStill(t *testing.T) {
	t.Parallel()
	database, thread := longThread(t, 2000)
	s := serveWith(t, database, speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.do(t, "choose a phone", chromedp.EmulateViewport(390, 844))
	p.visit(t, s.url+"/#/t/"+thread)
	p.until(t, "the last message", "probe.all('message').at(-1)?.innerText.includes('Answer 1999')")
	if n := eval[[]int](t, p, `['beforeprint', 'afterprint'].map((name) => (dispatchEvent(new Event(name)), probe.all('message').length))`); n[0] < 200 {
		t.Errorf("on paper there are %d of the messages", n[0])
	}
	p.until(t, "lines in view alone", "probe.all('message').length < 100")
	for _, step := range []int{-240, -600, 240} {
		before := eval[float64](t, p, shifted)
		off := eval[[]float64](t, p, fmt.Sprintf(`new Promise((done) => {
			const box = document.getElementById('transcript');
			const top = (e) => e.getBoundingClientRect().top;
			const off = [];
			let left = 60;
			const turn = () => {
				if (box.scrollTop + %[1]d < 0) { // on a busy machine older messages are still on their way
					requestAnimationFrame(turn);
					return;
				}
				const line = probe.all('message').findLast((e) => top(e) < 400);
				const from = top(line);
				requestAnimationFrame(() => {
					box.dispatchEvent(new WheelEvent('wheel', { deltaY: %[1]d }));
					box.scrollBy({ top: %[1]d, behavior: 'instant' });
					setTimeout(() => {
						off.push(line.isConnected ? Math.abs(top(line) - from + %[1]d) : 10_000);
						if (--left > 0) turn(); else done(off);
					});
				});
			};
			turn();
		})`, step))
		t.Logf("with %d pixels a frame a line was off by at most %.1f pixels; the score is %.3f", step, slices.Max(off), eval[float64](t, p, shifted)-before)
		if slices.Max(off) > 2 {
			t.Errorf("with %d pixels a frame a line in view was off by %.0f", step, off)
		}
	}
}
