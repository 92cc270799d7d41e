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

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

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
