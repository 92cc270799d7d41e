package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
)

// findBrowser returns the path of Chromium or Chrome, but not of a snap, which does not see the tests' files. Without one
// the test fails.
func findBrowser(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "google-chrome", "google-chrome-stable", "chromium-browser"}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if target, err := filepath.EvalSymlinks(path); err == nil && target != "/usr/bin/snap" {
			return path
		}
	}
	t.Fatalf("no browser for the tests (`make test` installs it): none of %s", strings.Join(names, ", "))
	return ""
}

// tab is a page in a real browser.
type tab struct {
	ctx context.Context
	// microphone is a script for every page, empty for the browser's own device.
	microphone string
	console    *output
	// problems are uncaught exceptions and violations of the content security policy.
	problems *output
	// violates says that the test violates the policy on purpose.
	violates bool
}

// chromium is a running browser. Its context has a blank tab of its own, the parent of the tests' tabs.
type chromium struct {
	ctx   context.Context
	close context.CancelFunc
	users int
}

// everyones is the browser of the tests that need none of their own, while there are any.
var everyones struct {
	mu sync.Mutex
	*chromium
}

// startBrowser starts a browser with more than the usual flags.
func startBrowser(t *testing.T, more ...chromedp.ExecAllocatorOption) *chromium {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(findBrowser(t)),
		chromedp.NoSandbox, // CI runs as root or in a container
		chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(testkit.Patience), // to start it takes long on a busy machine
		chromedp.WindowSize(1280, 800),
		// Machines without a network have only loopback.
		chromedp.Flag("allow-loopback-in-peer-connection", true),
		chromedp.Flag("disable-features", "Translate,WebRtcHideLocalIpsWithMdns"),
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"),
		chromedp.Flag("use-fake-device-for-media-stream", true),
		chromedp.Flag("force-prefers-reduced-motion", !night),
	)
	// Not the test's context: that one ends before a failure is recorded.
	ctx, stop := chromedp.NewExecAllocator(context.Background(), slices.Concat(options, more)...)
	ctx, cancel := chromedp.NewContext(ctx)
	b := &chromium{ctx: ctx, close: func() { cancel(); stop() }}
	if err := chromedp.Do(ctx); err != nil {
		b.close()
		t.Fatalf("start the browser: %v", err)
	}
	return b
}

// joinBrowser returns the browser of all tests, for which the test counts as a user until it ends.
func joinBrowser(t *testing.T) *chromium {
	t.Helper()
	everyones.mu.Lock()
	defer everyones.mu.Unlock()
	if everyones.chromium == nil || everyones.ctx.Err() != nil { // it may have crashed
		everyones.chromium = startBrowser(t, chromedp.Flag("use-fake-ui-for-media-stream", true))
	}
	b := everyones.chromium
	b.users++
	t.Cleanup(func() {
		everyones.mu.Lock()
		defer everyones.mu.Unlock()
		if b.users--; b.users > 0 {
			return
		}
		b.close()
		if everyones.chromium == b {
			everyones.chromium = nil
		}
	})
	return b
}

// openBrowser opens a tab in the browser of all tests that shares nothing with theirs. Its microphone is silent until the
// test speaks, and it has the focus even while others have it: it notices no coming and going of the user.
func openBrowser(t *testing.T) *tab {
	t.Helper()
	b := joinBrowser(t) // before there is a place, so that the browser goes on for the tests that wait
	takePlace(t)
	return openTab(b.ctx, t, speechless, chromedp.WithNewBrowserContext())
}

// ownBrowser starts a browser for this test, with one tab. Its microphone is the device that the flags make.
func ownBrowser(t *testing.T, flags ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	takePlace(t)
	b := startBrowser(t, flags...)
	t.Cleanup(b.close)
	return openTab(b.ctx, t, "")
}

// another opens a tab in the same browser.
func (p *tab) another(t *testing.T) *tab {
	t.Helper()
	return openTab(p.ctx, t, p.microphone)
}

// elsewhere opens a tab that shares nothing with this one, as on another device.
func (p *tab) elsewhere(t *testing.T) *tab {
	t.Helper()
	return openTab(p.ctx, t, p.microphone, chromedp.WithNewBrowserContext())
}

func openTab(parent context.Context, t *testing.T, microphone string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	p := &tab{ctx: ctx, microphone: microphone, console: &output{}, problems: &output{}}
	listened := make(chan struct{})
	t.Cleanup(func() { cancel(); <-listened })
	messages := chromedp.Console(ctx)
	go func() {
		defer close(listened)
		for m, err := range messages {
			if err != nil {
				return
			}
			fmt.Fprintln(p.console, m)
			if m.IsException() || strings.Contains(m.Text, "Content Security Policy") {
				fmt.Fprintln(p.problems, m)
			}
		}
	}()
	p.do(t, "set the size of the page", chromedp.EmulateViewport(1280, 800))
	p.do(t, "have the focus, whatever other tabs do", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
	p.do(t, "connect a microphone", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: microphone})
		return err
	}))
	t.Cleanup(func() { p.finish(t) })
	return p
}

// finish checks for problems that the tab met and, if the test failed, saves what helps to
// find out why.
func (p *tab) finish(t *testing.T) {
	t.Helper()
	if found := p.problems.String(); found != "" && !p.violates {
		t.Errorf("the page has problems:\n%s", found)
	}
	if !t.Failed() {
		return
	}
	keep(t, "console.txt", []byte(p.console.String()))
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	events, err := chromedp.Run(ctx, chromedp.Evaluate[json.RawMessage]("window.probe?.events ?? []"))
	if err != nil {
		t.Logf("the tab does not return its events: %v", err)
		return
	}
	keep(t, "events.json", events)
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[json.RawMessage]("window.probe?.gist()", chromedp.EvalAwaitPromise))
	if err != nil {
		t.Logf("the tab does not say what it shows: %v", err)
		return
	}
	t.Logf("the page shows %s", shown)
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Logf("the tab gives no picture: %v", err)
		return
	}
	keep(t, "page.png", picture)
}

// keep saves an artefact of a failed test.
func keep(t *testing.T, name string, content []byte) {
	t.Helper()
	stem, kind, _ := strings.Cut(name, ".")
	f, err := os.CreateTemp(t.ArtifactDir(), stem+"-*."+kind)
	if err != nil {
		t.Log(err)
		return
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		t.Log(err)
	}
	t.Logf("see %s", f.Name())
}

func (p *tab) do(t *testing.T, what string, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, step := range steps {
		steps[i] = insistent(step)
	}
	run(t, p, what, chromedp.Steps(steps...))
}

// insistent repeats a step if the page replaced the element between the moment at which the step
// found it and that at which it used it.
func insistent(step chromedp.Action[chromedp.Void]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		for {
			v, err := step(ctx, target)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Could not find node with given id") {
				return v, err
			}
		}
	}
}

// run ends a test whose browser does not respond. A page's own waits end earlier.
func run[T any](t *testing.T, p *tab, what string, a chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(p.ctx, 2*testkit.Patience, fmt.Errorf("waited in vain for: %s", what))
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatalf("%s: %v (%v)", what, err, context.Cause(ctx))
	}
	return v
}

// probe is injected into each page: it records the events of the data channel and answers
// questions about what is shown.
const probe = `window.probe ??= (() => {
  const events = [];
  const note = (way, data) => {
    let event = data;
    try { event = JSON.parse(data); } catch {}
    events.push({ at: Math.round(performance.now()), way, event });
  };
  const states = [];
  const open = RTCPeerConnection.prototype.createDataChannel;
  RTCPeerConnection.prototype.createDataChannel = function (...args) {
    this.addEventListener('connectionstatechange', () => states.push(this.connectionState));
    const channel = open.apply(this, args);
    window.probe.channel = channel;
    channel.addEventListener('message', (message) => note('in', message.data));
    const send = channel.send;
    channel.send = function (data) { note('out', data); return send.call(this, data); };
    return channel;
  };
  const all = (id) => [...document.querySelectorAll('[data-testid="' + id + '"]')];
  const loudest = {}; // of each meter: a slow test may look at it when all is silent again
  new MutationObserver((changes) => changes.forEach(({ target: { dataset: { testid, level } } }) => {
    loudest[testid] = Math.max(loudest[testid] ?? 0, Number(level));
  })).observe(document, { subtree: true, attributeFilter: ['data-level'] });
  const messages = () => all('message').map((m) => ({
    role: m.dataset.role, source: m.dataset.source, status: m.dataset.status,
    draft: m.dataset.draft === 'true', text: m.innerText,
  }));
  return {
    events, states, all, messages,
    has: (type) => events.some(({ way, event }) => way === 'in' && event.type === type),
    message: (want, words) => all('message').some((m) => m.dataset.draft !== 'true' &&
      (m.dataset.role + ' ' + m.dataset.source + ' ' + m.dataset.status).startsWith(want) &&
      m.innerText.includes(words)), // last, because the browser lays out the page for it
    silent() { // nothing is playing or queued for playing
      const open = new Set();
      for (const { event: { type, response_id: id } } of events) {
        if (type === 'output_audio_buffer.started' || type === 'response.output_audio.done') open.add(id);
        if (type === 'output_audio_buffer.stopped') open.delete(id);
        if (type === 'output_audio_buffer.cleared') open.clear();
      }
      return open.size === 0;
    },
    state: () => all('call-state')[0]?.dataset.state ?? 'none',
    level: (side) => Number(all('meter-' + side)[0]?.dataset.level ?? 0),
    loudest: (side) => loudest['meter-' + side] ?? 0,
    notice: (code, words) => all('notice').some((n) => n.dataset.code === code && n.innerText.includes(words)),
    gist: async () => ({
      state: all('call-state')[0]?.dataset.state, connections: states, loudest,
      notices: all('notice').map((n) => n.innerText), messages: messages().slice(-4),
      sound: [...(await window.voicebridge?.pc?.getStats() ?? new Map()).values()].filter(({ kind }) => kind === 'audio')
        .map(({ type, packetsSent, packetsReceived, totalAudioEnergy }) => ({ type, packetsSent, packetsReceived, totalAudioEnergy })),
      events: events.slice(-8).map(({ at, way, event }) => at + ' ' + way + ' ' + event.type),
    }),
    async heard() {
      const heard = { packets: 0, energy: 0 };
      for (const stat of (await voicebridge.pc?.getStats() ?? new Map()).values()) {
        if (stat.type !== 'inbound-rtp' || stat.kind !== 'audio') continue;
        heard.packets = stat.packetsReceived;
        heard.energy = stat.totalAudioEnergy ?? 0;
      }
      return heard;
    },
  };
})(); undefined`

// visit opens an address.
func (p *tab) visit(t *testing.T, url string) {
	t.Helper()
	p.do(t, "open "+url, chromedp.Navigate(url), chromedp.Evaluate[chromedp.Void](probe))
}

// reload reloads the page.
func (p *tab) reload(t *testing.T) {
	t.Helper()
	p.do(t, "reload", chromedp.Reload(), chromedp.Evaluate[chromedp.Void](probe))
}

// eval returns the value of an expression, awaited where it is a promise.
func eval[T any](t *testing.T, p *tab, expression string) T {
	t.Helper()
	return run(t, p, expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits for an expression to become true. The page itself watches, so that nothing
// short is missed. (chromedp.Poll needs unsafe-eval, which the page forbids.)
func (p *tab) until(t *testing.T, what, expression string) {
	t.Helper()
	ok := eval[bool](t, p, watching(expression))
	if !ok {
		t.Fatalf("waited in vain for: %s", what)
	}
}

// watching is an expression that becomes whether another one became true in time, which is that of the pauses between two
// looks: a browser that is held up waits longer. To look costs it a layout, so it looks less often the longer it waits.
func watching(expression string) string {
	return fmt.Sprintf(`new Promise((done, failed) => {
		let pause = 20, left = %d;
		const look = async () => {
			try {
				if (await (%s)) return done(true);
			} catch (thrown) {
				return failed(thrown);
			}
			if ((left -= pause) < 0) return done(false);
			setTimeout(look, pause);
			pause = Math.min(1.5 * pause, 160);
		};
		void look();
	})`, testkit.Patience.Milliseconds(), expression)
}

// untilMessage waits for a saved message that contains the words; want is its role, its
// source and, if it matters, its status.
func (p *tab) untilMessage(t *testing.T, want, words string) {
	t.Helper()
	p.until(t, "the message "+want+": "+words, fmt.Sprintf("probe.message(%q, %q)", want, words))
}

// untilNotice waits for a notice with a code and words.
func (p *tab) untilNotice(t *testing.T, code, words string) {
	t.Helper()
	p.until(t, "the notice "+code, fmt.Sprintf("probe.notice(%q, %q)", code, words))
}

// untilLive waits until the call is up.
func (p *tab) untilLive(t *testing.T) {
	t.Helper()
	p.until(t, "a live call", "['listening', 'thinking', 'speaking'].includes(probe.state())")
}

// untilSilent waits until all answers have been played to their end.
func (p *tab) untilSilent(t *testing.T) {
	t.Helper()
	p.until(t, "the end of the answers", "probe.silent()")
}

// untilOver waits until the page has no call.
func (p *tab) untilOver(t *testing.T) {
	t.Helper()
	p.until(t, "the end of the call", "probe.state() === 'none' && probe.all('talk').length === 1")
}

func byID(id string) chromedp.CSS { return chromedp.CSS(fmt.Sprintf("[data-testid=%q]", id)) }

func (p *tab) click(t *testing.T, id string) {
	t.Helper()
	p.do(t, "click "+id, chromedp.Click(byID(id)))
}

// say types a text and sends it.
func (p *tab) say(t *testing.T, text string) {
	t.Helper()
	p.do(t, "type "+text, chromedp.SendKeys(byID("textbox"), text), chromedp.Click(byID("send")))
}

// message is a message as the page shows it.
type message struct {
	Role, Source, Status, Text string
	Draft                      bool
}

func (p *tab) messages(t *testing.T) []message {
	t.Helper()
	return eval[[]message](t, p, "probe.messages()")
}
