package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// TestPageRecords has a call recorded because the user has chosen that, pauses the recording, and plays afterwards the call and a
// message of it.
func TestPageRecords(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_RECORDING__ENABLED=true")
	p := openBrowser(t, silent(t))
	p.visit(t, s.url)
	p.do(t, "choose to record", chromedp.Evaluate[chromedp.Void](`(localStorage.setItem('voicebridge-settings', '{"record":true}'), undefined)`))
	p.reload(t)
	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "the sign of a recording", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.wantAccessible(t, "a recorded call")
	p.click(t, "pause-recording")
	p.until(t, "a pause", "probe.all('recording-sign')[0]?.dataset.state === 'paused'")
	p.click(t, "pause-recording")
	p.until(t, "the recording going on", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.click(t, "call-settings")
	p.until(t, "what the user has chosen", "probe.all('choose-record')[0]?.checked === true")
	p.press(t, "Escape", 27)
	p.say(t, "Show me the sales as a chart.")
	p.until(t, "an answer with its place in the recording", "probe.all('hear').length > 0")
	p.click(t, "hangup")
	p.untilOver(t)
	p.click(t, "show-recording")
	p.until(t, "the outline of both sides", "probe.all('waveform')[0]?.querySelectorAll('path').length === 2 && probe.all('waveform')[0].querySelector('rect.assistant') !== null")
	p.wantAccessible(t, "a recording")
	p.look(t, "recording")
	p.do(t, "play", chromedp.Evaluate[chromedp.Void]("(probe.all('play-recording')[0].click(), undefined)"))
	p.until(t, "the call being played", "probe.all('play-recording')[0]?.ariaLabel === 'Pause' && probe.all('waveform')[0].querySelector('line').getAttribute('x1') > 0")
	p.do(t, "play a message", chromedp.Evaluate[chromedp.Void]("(probe.all('hear')[0].click(), undefined)"))
	p.until(t, "the message being played", "probe.all('hear')[0]?.ariaPressed === 'true' && probe.all('play-recording')[0].ariaLabel === 'Play'")
	seconds := eval[float64](t, p, `(async () => {
		const address = performance.getEntriesByType('resource').map(({ name }) => name).findLast((name) => name.endsWith('/audio'));
		const sound = await (await fetch(address)).arrayBuffer();
		return (await new OfflineAudioContext(1, 48000, 48000).decodeAudioData(sound)).duration;
	})()`)
	if seconds < 0.3 || seconds > 60 {
		t.Errorf("the message has %v s of sound", seconds)
	}
	p.until(t, "a way to download it", "probe.all('download-recording')[0]?.href.includes('/recording?track=both')")
}
