package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// device records what the page asks of the device around it.
const device = `(() => {
	probe.locks = 0;
	Object.defineProperty(navigator, 'wakeLock', { value: { request: async () => {
		probe.locks++;
		return { release: async () => { probe.locks--; } };
	} } });
	probe.actions = {};
	const set = navigator.mediaSession.setActionHandler;
	navigator.mediaSession.setActionHandler = function (action, handler) {
		set.call(this, action, handler);
		probe.actions[action] = handler;
	};
})()`

// untilTurns waits until the call's session has a type of turn detection, or none: null.
func (p *tab) untilTurns(t *testing.T, turns string) {
	t.Helper()
	p.until(t, "a session with turn detection "+turns, `[probe.events.findLast(({ way, event }) => way === 'in' && event.type === 'session.updated')].some((updated) =>
		updated && JSON.stringify(updated.event.session.audio.input.turn_detection?.type ?? null) === '`+turns+`')`)
}

// untilSpeed waits until the call's session speaks that fast.
func (p *tab) untilSpeed(t *testing.T, speed float64) {
	t.Helper()
	p.until(t, fmt.Sprintf("a session of speed %v", speed), fmt.Sprintf(`probe.events.findLast(({ way, event }) =>
		way === 'in' && event.type === 'session.updated')?.event.session.audio.output.speed === %v`, speed))
}

// TestPageDevice keeps the screen on during a call, is muted and hung up from the lock
// screen, can be installed, gets another microphone when one is unplugged, changes how to
// speak, and sends a photo from the camera into the call.
func TestPageDevice(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.do(t, "watch the device", chromedp.Evaluate[chromedp.Void](device))
	errs := run(t, p, "ask whether it can be installed", chromedp.Action[page.GetInstallabilityErrorsResult](
		func(ctx context.Context, target *chromedp.Target) (page.GetInstallabilityErrorsResult, error) {
			return cdp.Call(ctx, target, page.GetInstallabilityErrors, cdp.Empty{})
		}))
	for _, e := range errs.InstallabilityErrors {
		if e.ErrorID != "in-incognito" { // as contexts of a browser are
			t.Errorf("the page cannot be installed: %s", e.ErrorID)
		}
	}
	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "a screen that stays on", "probe.locks === 1")
	p.until(t, "the call on the lock screen", "navigator.mediaSession.metadata?.artist === 'voicebridge' && navigator.mediaSession.playbackState === 'playing'")
	p.do(t, "mute from the lock screen", chromedp.Evaluate[chromedp.Void]("(probe.actions.togglemicrophone(), undefined)"))
	p.until(t, "a muted microphone", "probe.all('call-state')[0].dataset.word === 'muted'")
	p.do(t, "unmute from the lock screen", chromedp.Evaluate[chromedp.Void]("(probe.actions.togglemicrophone(), undefined)"))
	p.until(t, "an open microphone", "probe.all('call-state')[0].dataset.word !== 'muted'")
	p.untilSilent(t)

	p.do(t, "unplug the microphone", chromedp.Evaluate[chromedp.Void](`(probe.track = voicebridge.pc.getSenders()[0].track, probe.track.dispatchEvent(new Event('ended')), undefined)`))
	p.untilNotice(t, "mic_changed", "is used now.")
	p.until(t, "another microphone in the call", "((track) => track && track !== probe.track && track.readyState === 'live' && track.enabled)(voicebridge.pc.getSenders()[0].track)")

	p.do(t, "unplug the last one", chromedp.Evaluate[chromedp.Void](`(navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotFoundError'); },
		probe.track = voicebridge.pc.getSenders()[0].track, probe.track.dispatchEvent(new Event('ended')), undefined)`))
	p.untilNotice(t, "mic_changed", "Reconnect it")
	p.do(t, "connect it again", chromedp.Evaluate[chromedp.Void]("(delete navigator.mediaDevices.getUserMedia, navigator.mediaDevices.dispatchEvent(new Event('devicechange')), undefined)"))
	p.untilNotice(t, "mic_changed", "is used now.")
	p.until(t, "it in the call", "((track) => track && track !== probe.track && track.readyState === 'live' && track.enabled)(voicebridge.pc.getSenders()[0].track)")

	// Hold to talk, and back to how the session notices speech by itself.
	p.click(t, "call-settings")
	p.until(t, "the settings", "probe.all('choose-hold').length === 1")
	for _, mode := range []struct{ choice, turns string }{{"1", "null"}, {"0", `"server_vad"`}} {
		p.do(t, "choose how to speak", chromedp.Evaluate[chromedp.Void]("(document.querySelectorAll('input[name=mode]')["+mode.choice+"].click(), undefined)"))
		p.untilTurns(t, mode.turns)
	}
	p.click(t, "close-panel")

	p.click(t, "take-photo")
	p.until(t, "the camera's picture", "document.querySelector('[data-testid=camera-dialog] video')?.videoWidth > 0")
	p.wantAccessible(t, "camera")
	p.look(t, "camera")
	p.click(t, "shutter")
	p.until(t, "the photograph", "probe.all('pictures').length === 1 && probe.all('camera-dialog').length === 0")
	p.say(t, "What is this?")
	p.until(t, "the photograph in the thread", "document.querySelector('[data-testid=message][data-role=user] img')?.naturalWidth > 0")
	testkit.Eventually(t, "an image at the model", func() bool {
		for _, r := range s.upstream(t, 0).Received() {
			if strings.Contains(string(r.Event.Raw), `"input_image"`) && r.Refused == "" {
				return true
			}
		}
		return false
	})
	p.do(t, "hang up from the lock screen", chromedp.Evaluate[chromedp.Void]("(probe.actions.hangup(), undefined)"))
	p.untilOver(t)
	p.until(t, "a screen that may go out, and no call on the lock screen", "probe.locks === 0 && navigator.mediaSession.metadata === null")
	if got := s.untilEnded(t, 1); got[0] != "hangup" {
		t.Errorf("the call ended with %q", got[0])
	}
}

// TestPageIsPushToTalk opens the microphone only while a button is held, because the operator's settings say so.
func TestPageIsPushToTalk(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_REALTIME__TURN_DETECTION__TYPE=none")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	open := func(want bool) string {
		return fmt.Sprintf("voicebridge.pc.getSenders()[0].track.enabled === %v && (probe.all('call-state')[0].dataset.word === 'held') === %v", want, !want)
	}
	p.until(t, "a shut microphone", open(false))
	p.do(t, "hold the button", chromedp.Evaluate[chromedp.Void]("(probe.all('hold-to-talk')[0].dispatchEvent(new PointerEvent('pointerdown', { bubbles: true })), undefined)"))
	p.until(t, "an open one", open(true))
	p.do(t, "let it go", chromedp.Evaluate[chromedp.Void]("(probe.all('hold-to-talk')[0].dispatchEvent(new PointerEvent('pointerup', { bubbles: true })), undefined)"))
	p.until(t, "a shut one", open(false))
}
