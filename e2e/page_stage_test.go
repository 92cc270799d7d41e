//go:build nightly

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// tells lets the page hear events of a call as if its server had sent them.
func (p *tab) tells(t *testing.T, events ...string) {
	t.Helper()
	for _, e := range events {
		p.do(t, "tell "+e, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(probe.channel.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(%s) })), undefined)", e)))
	}
}

// media makes the page believe in the user's preferences, such as prefers-reduced-motion.
func (p *tab) media(t *testing.T, name, value string) {
	t.Helper()
	p.do(t, "prefer "+value, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: name, Value: value}},
		})
		return err
	}))
}

// holdCalls lets new calls wait until probe.place is called.
const holdCalls = `((send) => { window.fetch = async (url, init) => {
	if (String(url).includes('/realtime/calls') && init?.method === 'POST' && !String(url).includes('hangup')) await new Promise((go) => { probe.place = go; });
	return send(url, init);
}; })(window.fetch), undefined`

// orbChanges says whether the orb looks different a while later, in its own pixels.
const orbChanges = `(async () => {
	const canvas = document.querySelector('[data-testid=orb] canvas');
	const look = () => canvas.toDataURL();
	const before = look();
	await new Promise((done) => setTimeout(done, 400));
	return look() !== before;
})()`

// overlaps names the parts of the call's display that lie over each other or out of the window, and words that are cut.
const overlaps = `(() => {
	const root = document.querySelector('[data-testid=stage], .strip');
	const parts = ['orb', 'call-state', 'mute', 'stop-talking', 'hangup', 'call-settings', 'show-screen', 'meter-you', 'meter-assistant', 'show-transcript']
		.map((id) => [id, root.querySelector('[data-testid=' + id + ']')]).filter(([, e]) => e && e.getClientRects().length > 0);
	const found = [];
	for (const [id, e] of parts) {
		const a = e.getBoundingClientRect();
		if (a.left < 0 || a.right > innerWidth || a.top < 0 || a.bottom > innerHeight) found.push(id + ' is out of view');
		if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0) found.push(id + ' is cut');
		for (const [other, f] of parts) {
			const b = f.getBoundingClientRect();
			if (other > id && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) found.push(id + ' lies over ' + other);
		}
	}
	return found.join(', ');
})()`

// moment is what happens in a call, and what the page says then.
type moment struct {
	name   string
	events []string
	word   string
}

// moments tell a whole call. The tests' pages speak with a simulator that is silent.
var moments = []moment{
	{"listening", []string{`{ type: 'input_audio_buffer.cleared' }`}, "listening"},
	{"hearing", []string{
		`{ type: 'input_audio_buffer.speech_started', item_id: 'u1' }`,
		`{ type: 'conversation.item.input_audio_transcription.delta', item_id: 'u1', delta: 'What happens to my call when the train goes into a tunnel, and will the assistant still know what we spoke about before?' }`,
	}, "hearing"},
	{"thinking", []string{
		`{ type: 'input_audio_buffer.speech_stopped', item_id: 'u1' }`,
		`{ type: 'input_audio_buffer.committed', item_id: 'u1' }`,
	}, "thinking"},
	{"tool", []string{
		`{ type: 'response.created', response: { id: 'r1' } }`,
		`{ type: 'bridge.tool.started', tool_call_id: 't1', name: 'webSearch', executor: 'app' }`,
		`{ type: 'bridge.tool.progress', tool_call_id: 't1', message: 'Reading three pages' }`,
	}, "tool"},
	{"approval", []string{
		`{ type: 'bridge.tool.approval_required', tool_call_id: 't2', name: 'mail__send', input: { to: 'ada@example.org', subject: 'Tunnel' }, nonce: 'n' }`,
	}, "approval"},
	{"speaking", []string{
		`{ type: 'bridge.tool.done', tool_call_id: 't1' }`,
		`{ type: 'bridge.tool.failed', tool_call_id: 't2', error: 'no' }`,
		`{ type: 'output_audio_buffer.started', response_id: 'r1' }`,
		`{ type: 'response.output_audio_transcript.delta', item_id: 'a1', delta: 'The call waits for you. For half a minute the server keeps the line to the model, its tools go on, and when the train is out again your page finds a new path by itself and the conversation goes on.' }`,
	}, "speaking"},
	{"reconnecting", []string{`{ type: 'bridge.upstream.lost', reason: 'upstream_lost' }`}, "renewing"},
	{"muted", []string{`{ type: 'bridge.upstream.renewed', reason: 'upstream_lost' }`}, "muted"},
}

// TestPageStage shows a call in each of its states on a phone and on a desktop, light and dark, in German and without
// motion: as an artefact a strip of pictures, of which nothing is cut, lies over another or cannot be read aloud. The orb moves
// with the call, and stands still where no motion is wanted.
func TestPageStage(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	for _, scene := range []struct {
		name          string
		width, height int64
		theme, lang   string
		still         bool
	}{
		{"phone-light", 390, 844, "light", "en", false},
		{"phone-dark", 390, 844, "dark", "en", false},
		{"desktop-light", 1440, 900, "light", "en", false},
		{"desktop-dark", 1440, 900, "dark", "en", false},
		{"phone-still", 390, 844, "light", "en", true},
		{"phone-german", 390, 844, "light", "de", false},
		{"desktop-german", 1440, 900, "light", "de", false},
	} {
		motion := "no-preference"
		if scene.still {
			motion = "reduce"
		}
		p.media(t, "prefers-reduced-motion", motion)
		p.do(t, "change the window", chromedp.EmulateViewport(scene.width, scene.height))
		p.visit(t, s.url+"/?"+scene.name)
		p.do(t, "choose colours and a language", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(localStorage.setItem('voicebridge-theme', %q), localStorage.setItem('voicebridge-language', %q), undefined)", scene.theme, scene.lang)))
		p.visit(t, s.url+"/?"+scene.name+"-now")
		p.until(t, "an empty page", "probe.all('empty').length === 1 && probe.all('suggestion').length === 4")
		p.look(t, "film-"+scene.name+"-0-empty")
		p.do(t, "hold the call", chromedp.Evaluate[chromedp.Void](holdCalls))
		p.click(t, "talk")
		wanted := func(m moment) {
			t.Helper()
			p.until(t, m.word, fmt.Sprintf("probe.all('call-state')[0]?.dataset.word === %q && probe.all('orb')[0]?.dataset.state === %q", m.word, m.word))
			p.until(t, "mute and hang-up in reach", reachable+"('mute') && "+reachable+"('hangup')")
			p.until(t, scene.name+", "+m.name+": nothing that lies over another", overlaps+` === ""`) // once the orb has its size
			if staged := eval[bool](t, p, "probe.all('stage').length === 1"); staged != strings.HasPrefix(scene.name, "phone") {
				t.Errorf("%s, %s: the call is on a stage: %v", scene.name, m.name, staged)
			}
			p.until(t, "an orb", "probe.all('orb')[0]?.getBoundingClientRect().width >= (probe.all('stage').length ? 50 : 40)")
		}
		wanted(moment{name: "connecting", word: "connecting"})
		p.look(t, "film-"+scene.name+"-1-connecting")
		p.until(t, "the request", "probe.place !== undefined")
		p.do(t, "let it through", chromedp.Evaluate[chromedp.Void]("(probe.place(), undefined)"))
		p.untilLive(t)
		p.focusOn(t, "mute")
		for i, m := range moments {
			p.tells(t, m.events...)
			if m.word == "muted" {
				p.click(t, "mute")
			}
			wanted(m)
			if moves := eval[bool](t, p, orbChanges); moves == scene.still && m.word != "muted" {
				t.Errorf("%s, %s: the orb moves: %v", scene.name, m.name, moves)
			}
			p.look(t, fmt.Sprintf("film-%s-%d-%s", scene.name, i+2, m.name))
			if scene.lang == "en" && !scene.still {
				p.wantAccessible(t, scene.name+" "+m.name)
			}
		}
		p.click(t, "hangup")
		p.untilOver(t)
	}
}
