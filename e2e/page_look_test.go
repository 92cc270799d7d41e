//go:build nightly

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
)

// seen are what a session of the simulator got of pictures and the outputs of tools, in order, and when it was asked to answer.
func (r *rig) seen(t *testing.T) (all []string) {
	t.Helper()
	for _, got := range r.upstream(t, 0).Received() {
		item, err := realtime.DecodeItem(got.Event.Item)
		switch {
		case got.Refused != "":
			all = append(all, "refused: "+got.Refused)
		case got.Event.Type == realtime.TypeResponseCreate:
			all = append(all, "answer")
		case got.Event.Type != realtime.TypeItemCreate || err != nil:
		case item.Type == realtime.ItemFunctionCallOutput:
			all = append(all, "output "+item.Output)
		case slices.ContainsFunc(item.Content, func(c realtime.Content) bool {
			return c.Type == realtime.ContentInputImage && strings.HasPrefix(c.ImageURL, "data:image/jpeg;base64,")
		}):
			all = append(all, "picture")
		default:
			all = append(all, "text")
		}
	}
	return all
}

// TestPageLook lets the model look through the camera once the user has allowed it: it has the picture before it answers,
// and the thread keeps it. What the user does not want, it does not see. A button sends what is on the screen.
func TestPageLook(t *testing.T) {
	t.Parallel()
	cfg := speaking(greets)
	onPlease(cfg.Script, "Look at this.", "look", "{}")
	s := serveWith(t, persistencetest.SQLiteURL(t), cfg, "VOICEBRIDGE_TOOLS__TIMEOUT_SECONDS=600")
	p := openBrowser(t)
	p.visit(t, s.url)
	if early := eval[bool](t, p, "performance.getEntriesByType('resource').some(({ name }) => /sight|Looking/.test(name))"); early {
		t.Error("the page has loaded what only looking needs")
	}
	// Here the question may stay for as long as the test looks at it.
	p.do(t, "be patient", chromedp.Evaluate[chromedp.Void]("(((set) => { window.setTimeout = (f, ms, ...more) => set(f, ms === 25000 ? 600000 : ms, ...more); })(window.setTimeout), undefined)"))
	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "the tool", `probe.events.some(({ way, event }) => way === 'in' && event.type === 'session.updated' && event.session.tools?.some(({ name }) => name === 'look'))`)

	p.say(t, "Look at this.")
	p.until(t, "the question", "probe.all('look-question').length === 1")
	p.wantAccessible(t, "look")
	p.look(t, "look")
	p.do(t, "take a phone", chromedp.EmulateViewport(390, 844))
	p.until(t, "the question on the stage", "probe.all('stage').length === 1 && probe.all('look-camera').length === 1 && probe.all('mute').length === 1 && "+reachable+"('look-camera') && "+reachable+"('mute')")
	p.until(t, "nothing that lies over another", overlaps+` === ""`)
	p.wantAccessible(t, "look on a phone")
	p.look(t, "look-phone")
	p.do(t, "go back", chromedp.EmulateViewport(1280, 800))
	if got := s.seen(t); slices.Contains(got, "picture") {
		t.Errorf("before the user has agreed, the model has got %q", got)
	}
	p.click(t, "look-camera")
	const pictures = `[...document.querySelectorAll('[data-testid=message][data-role=user] img')].filter((img) => img.naturalWidth > 100).length`
	p.until(t, "the picture in the thread", pictures+" === 1")
	p.untilMessage(t, "assistant voice completed", "It is done.")
	p.until(t, "a sign that it may look", "probe.all('look-sign')[0]?.dataset.subject === 'camera' && probe.all('look-question').length === 0")
	if got := s.seen(t); !slices.EqualFunc(got, []string{"text", "answer", "picture", `output {"of":"camera"`, "answer"}, strings.HasPrefix) {
		t.Errorf("the model has got %q", got)
	}

	p.click(t, "look-stop")
	p.until(t, "no sign", "probe.all('look-sign').length === 0")
	p.until(t, "an answer that was played", "probe.all('call-state')[0].dataset.word === 'listening'")
	// The limit of two seconds is for a picture: who is asked anew has it behind them.
	p.until(t, "two seconds later", "performance.now() - (probe.began ??= performance.now()) > 2000")
	p.say(t, "Look at this.")
	p.until(t, "the question", "probe.all('look-question').length === 1")
	p.click(t, "look-refuse")
	p.untilMessage(t, "assistant voice completed", "It did not work.")
	p.focusOn(t, "mute")

	p.do(t, "a screen", chromedp.Evaluate[chromedp.Void](`(navigator.mediaDevices.getDisplayMedia = async () => {
		const canvas = document.createElement('canvas');
		[canvas.width, canvas.height] = [640, 400];
		const draw = canvas.getContext('2d');
		probe.drawing = setInterval(() => { draw.fillStyle = '#0a7'; draw.fillRect(0, 0, 640, 400); }, 50);
		probe.shared = canvas.captureStream(20);
		return probe.shared;
	}, undefined)`))
	p.click(t, "show-screen")
	p.until(t, "the screen in the thread", pictures+" === 2 && probe.shared.getTracks().every((track) => track.readyState === 'ended')")
	testkit.Eventually(t, "an answer to it", func() bool {
		got := s.seen(t)
		return len(got) > 2 && got[len(got)-1] == "answer" && got[len(got)-2] == "picture"
	})
	p.click(t, "hangup")
	p.untilOver(t)
	p.reload(t)
	p.until(t, "the last picture after a reload", pictures+" > 0")
	testkit.Equal(t, s.rows(t, "SELECT count(*) FROM images"), []string{"2"}, "the thread keeps pictures")
	testkit.Equal(t, s.rows(t, "SELECT name, executor, status FROM tool_call_log"), []string{"look | client | done", "look | client | done"}, "tool calls")
}
