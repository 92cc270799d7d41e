package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// hearing measures what elements play: window.played is the loudest sample so far.
const hearing = `(() => {
	window.played = 0;
	const play = HTMLMediaElement.prototype.play;
	HTMLMediaElement.prototype.play = function () {
		if (this.srcObject instanceof MediaStream) {
			const context = new AudioContext();
			const analyser = context.createAnalyser();
			const samples = new Float32Array(analyser.fftSize);
			const stream = this.srcObject;
			context.createMediaStreamSource(stream).connect(analyser);
			const look = () => {
				analyser.getFloatTimeDomainData(samples);
				window.played = Math.max(window.played, ...samples.map(Math.abs));
				if (stream.active) setTimeout(look, 20);
				else void context.close();
			};
			look();
		}
		return play.call(this);
	};
})(); undefined`

// TestPageTrials tries a microphone and the loudspeaker in the settings and a voice where it is chosen, outside a call. Nothing is left of it: no open
// microphone, no conversation.
func TestPageTrials(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.do(t, "listen to what is played", chromedp.Evaluate[chromedp.Void](hearing))
	p.do(t, "watch the microphone", chromedp.Evaluate[chromedp.Void](`(() => {
		const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
		window.opened = [];
		navigator.mediaDevices.getUserMedia = async (what) => { const stream = await open(what); window.opened.push(...stream.getTracks()); return stream; };
	})(); undefined`))
	p.pressID(t, "more")
	p.pressID(t, "menu-settings")
	p.until(t, "the settings", "probe.all('try-microphone').length === 1 && probe.all('microphone-level').length === 0")
	p.pressID(t, "try-microphone")
	p.until(t, "the microphone's level", "probe.all('microphone-level').length === 1")
	p.speak(t)
	p.until(t, "a level as loud as what is said", "probe.loudest('trial') > 0.2")
	p.pressID(t, "try-microphone")
	p.until(t, "a closed microphone", "probe.all('microphone-level').length === 0 && opened.length > 0 && opened.every(({ readyState }) => readyState === 'ended')")

	p.pressID(t, "test-sound")
	p.until(t, "three notes", "played > 0.05")
	p.until(t, "their end", "probe.all('test-sound')[0].getAttribute('aria-disabled') === 'false'")

	p.pressID(t, "who")
	p.until(t, "the choice of voices", "probe.all('choose-voice').length === 1")
	p.do(t, "forget the notes", chromedp.Evaluate[chromedp.Void]("(window.played = 0, undefined)"))
	p.pressID(t, "hear-voice")
	p.until(t, "the voice", "played > 0.05")
	p.until(t, "its end", "probe.all('hear-voice')[0].dataset.playing === undefined")
	p.until(t, "no conversation", `fetch('/api/threads').then((r) => r.json()).then(({ threads }) => threads.length === 0)`)
	testkit.Equal(t, eval[int](t, p, "opened.length"), 1, "the microphone was opened times")
}
