package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"voicebridge/persistence/persistencetest"
)

// tabTo presses Tab until an element has the focus. On the way the focus is always in
// view, visible and never lost.
func (p *tab) tabTo(t *testing.T, what, found string) {
	t.Helper()
	const most = 80
	var passed []string
	for range most {
		p.press(t, "Tab", 9)
		at := eval[struct {
			Name    string
			Found   bool
			Seen    bool
			Focused bool
		}](t, p, `(() => {
			const e = document.activeElement;
			const { left, right, top, bottom, width, height } = e.getBoundingClientRect();
			const style = getComputedStyle(e);
			const ring = (s) => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== 'none';
			return {
				name: e.dataset.testid ?? e.ariaLabel ?? e.textContent.trim().slice(0, 30),
				found: !!(`+found+`),
				seen: width > 0 && height > 0 && right > 0 && bottom > 0 && left < innerWidth && top < innerHeight,
				focused: e === document.body || ring(style) || [...document.querySelectorAll(':focus-within')].some((w) => ring(getComputedStyle(w))),
			};
		})()`)
		passed = append(passed, at.Name)
		if !at.Seen || !at.Focused {
			t.Errorf("on the way to %s the focus on %q is in view: %v, is shown: %v", what, at.Name, at.Seen, at.Focused)
		}
		if at.Found {
			return
		}
	}
	t.Fatalf("Tab does not reach %s: %q", what, passed)
}

func (p *tab) tabToID(t *testing.T, id string) {
	t.Helper()
	p.tabTo(t, id, fmt.Sprintf("e.dataset.testid === %q", id))
}

// focusOn waits until an element has the focus.
func (p *tab) focusOn(t *testing.T, id string) {
	t.Helper()
	p.until(t, "the focus on "+id, fmt.Sprintf("document.activeElement.dataset.testid === %q", id))
}

// TestPageByKeyboard types, calls, mutes, approves, hangs up, renames, changes the settings and holds the button to speak without a mouse.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	settings := write(t, "tools: {approve: [create_bar_chart]}\n"+rigSettings)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+settings)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "an empty page", "probe.all('empty').length === 1")
	p.press(t, "Tab", 9)
	p.until(t, "the way past the list", "document.activeElement.matches('.skip') && document.activeElement.getBoundingClientRect().top >= 0")
	p.enter(t)
	p.focusOn(t, "textbox")
	p.tabToID(t, "talk")
	p.enter(t)
	p.focusOn(t, "mute")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.do(t, "give the focus to the thread", chromedp.Evaluate[chromedp.Void]("(document.getElementById('transcript').focus(), undefined)"))
	p.press(t, "m", 77)
	p.until(t, "the word for it", "probe.all('call-state')[0].dataset.word === 'muted'")
	p.tabToID(t, "textbox")
	p.do(t, "type", chromedp.KeyEvent(chartWords))
	p.enter(t)
	p.until(t, "the question", "probe.all('approval-dialog').length === 1")
	p.tabToID(t, "approve")
	p.enter(t)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.until(t, "a focus that is not lost", "document.activeElement !== document.body")
	p.tabTo(t, "the thread's name", "e.matches('[data-testid=thread-item] a')")
	p.tabToID(t, "rename-thread")
	p.enter(t)
	p.focusOn(t, "rename-input")
	p.do(t, "type", chromedp.KeyEvent("By hand"))
	p.enter(t)
	p.focusOn(t, "rename-thread")
	p.until(t, "the new title", "probe.all('thread-item')[0].innerText.includes('By hand')")
	p.tabToID(t, "hangup")
	p.press(t, " ", 32)
	p.focusOn(t, "talk")
	p.untilOver(t)
	p.tabToID(t, "more")
	p.enter(t)
	p.tabToID(t, "menu-settings")
	p.enter(t)
	p.until(t, "the settings, with the focus in them", "probe.all('settings-panel').length === 1 && probe.all('settings-panel')[0].contains(document.activeElement)")
	p.until(t, "the choice", "probe.all('choose-shortcuts').length === 1")
	p.do(t, "switch the shortcuts off", chromedp.Evaluate[chromedp.Void]("(probe.all('choose-shortcuts')[0].click(), undefined)"))
	p.press(t, "Escape", 27)
	p.until(t, "no settings, and the focus where it was", "probe.all('settings-panel').length === 0 && document.activeElement.dataset.testid === 'more'")
	s.untilEnded(t, 1)

	p.tabToID(t, "talk")
	p.enter(t)
	p.untilLive(t)
	p.do(t, "give the focus to the thread", chromedp.Evaluate[chromedp.Void]("(document.getElementById('transcript').focus(), undefined)"))
	p.press(t, "m", 77)
	if eval[string](t, p, "probe.all('mute')[0].ariaPressed") != "false" {
		t.Error("m mutes though the shortcuts are off")
	}
	p.tabToID(t, "hangup")
	p.enter(t)
	p.untilOver(t)
	s.untilEnded(t, 2)

	// With the space bar as the button to speak, it must not hang up.
	p.do(t, "hold a button to speak", chromedp.Evaluate[chromedp.Void]("(localStorage.setItem('voicebridge-settings', '{\"mode\":\"hold\"}'), undefined)"))
	p.reload(t)
	p.until(t, "the page", "probe.all('talk').length === 1")
	p.tabToID(t, "talk")
	p.enter(t)
	p.focusOn(t, "hold-to-talk")
	p.press(t, " ", 32)
	p.untilLive(t)
	p.tabToID(t, "hangup")
	p.enter(t)
	p.untilOver(t)
	if got := s.untilEnded(t, 3); got[2] != "hangup" {
		t.Errorf("the calls ended with %q", got)
	}
}

// treeStates are the states of elements that tree shows.
var treeStates = []accessibility.PropertyName{"pressed", "checked", "expanded", "disabled", "focused"}

// tree is the page as a screen reader gets it, one element per line: its role, its name, and its states.
func (p *tab) tree(t *testing.T) []string {
	t.Helper()
	res := run(t, p, "read the accessibility tree", chromedp.Action[accessibility.GetFullAXTreeResult](
		func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
			return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		}))
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s)
		}
		return strings.Join(strings.Fields(s), " ")
	}
	nodes := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range res.Nodes {
		nodes[n.NodeID] = n
	}
	var lines []string
	var walk func(accessibility.NodeID)
	walk = func(id accessibility.NodeID) {
		n := nodes[id]
		if n == nil {
			return
		}
		if role := text(n.Role); !n.Ignored && role != "InlineTextBox" && role != "generic" {
			line := strings.TrimSpace(role + " " + text(n.Name))
			for _, p := range n.Properties {
				if slices.Contains(treeStates, p.Name) && p.Value != nil && line != role && role != "RootWebArea" {
					line += fmt.Sprintf(" [%s %s]", p.Name, strings.Trim(string(p.Value.Value), `"`))
				}
			}
			if role == "slider" {
				line += fmt.Sprintf(" [value %s]", strings.Trim(string(n.Value.Value), `"`))
			}
			lines = append(lines, line)
		}
		for _, child := range n.ChildIDs {
			walk(child)
		}
	}
	walk(res.Nodes[0].NodeID)
	return lines
}

// wantTree checks that a screen reader gets certain elements, in order, and no control
// without a name.
func (p *tab) wantTree(t *testing.T, state string, want ...string) {
	t.Helper()
	lines := p.tree(t)
	keep(t, "tree-"+strings.ReplaceAll(state, " ", "-")+".txt", []byte(strings.Join(lines, "\n")))
	for _, role := range []string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "slider", "dialog", "navigation", "region", "complementary", "search", "image"} {
		if slices.Contains(lines, role) {
			t.Errorf("%s: there is a %s without a name", state, role)
		}
	}
	rest := lines
	for _, w := range want {
		at := slices.IndexFunc(rest, func(line string) bool { return strings.HasPrefix(line, w) })
		if at < 0 {
			t.Errorf("%s: a screen reader does not get %q, in this order, in\n%s", state, w, strings.Join(lines, "\n"))
			return
		}
		rest = rest[at+1:]
	}
}

// TestPageForScreenReaders reads what Chromium gives a screen reader, in the main states.
func TestPageForScreenReaders(t *testing.T) {
	t.Parallel()
	settings := write(t, "tools: {approve: [create_bar_chart]}\n"+rigSettings)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+settings)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "an empty page", "probe.all('empty').length === 1")
	p.wantTree(t, "empty", "RootWebArea", "link Skip to the message box", "complementary Conversations", "navigation Conversations", "button New conversation",
		"search Search everything said", "searchbox Search everything said", "heading New conversation", "main Transcript", "textbox Message", "button Talk")
	p.click(t, "talk")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.click(t, "mute")
	p.say(t, chartWords)
	p.until(t, "the question", "probe.all('approval-dialog').length === 1")
	p.wantTree(t, "asked in a call", "main Transcript", "region Let the assistant use", "button Don’t allow", "button Allow once",
		"region Call", "status", "button Mute the microphone", "button Hang up", "textbox Message")
	p.click(t, "approve")
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.click(t, "hangup")
	p.untilOver(t)
	p.until(t, "what the call was like", "probe.all('call-end').length === 1")
	p.wantTree(t, "after a call", "main Transcript", "image bar chart: Sales of this year", "group Call", "button Talk")
}

// TestPageRecordingByKeyboard has a call recorded, pauses that, allows a tool, hangs up and listens to the call and to a message, all
// without a mouse; Chromium gives a screen reader the role, the name and the state of what is used.
func TestPageRecordingByKeyboard(t *testing.T) {
	t.Parallel()
	settings := write(t, "tools: {approve: [create_bar_chart]}\n"+rigSettings)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+settings, "VOICEBRIDGE_RECORDING__ENABLED=true")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "an empty page", "probe.all('empty').length === 1")
	p.tabToID(t, "more")
	p.enter(t)
	p.tabToID(t, "menu-settings")
	p.enter(t)
	p.until(t, "the choice", "probe.all('choose-record').length === 1")
	p.tabToID(t, "choose-record")
	p.press(t, " ", 32)
	p.wantTree(t, "recording chosen", "checkbox Record my calls What you and the assistant say is kept with the conversation, from your next call on. You can pause it during a call. [focused true] [checked true]")
	p.press(t, "Escape", 27)
	p.until(t, "no settings", "probe.all('settings-panel').length === 0")
	p.tabToID(t, "talk")
	p.enter(t)
	p.focusOn(t, "mute")
	p.untilLive(t)
	p.until(t, "the sign of a recording", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.wantTree(t, "recorded call", "main Transcript", "region Call", "status", "StaticText This call is being recorded.", "button Pause recording",
		"button Mute the microphone [focused true] [pressed false]", "button Hang up", "textbox Message")
	p.press(t, "m", 77)
	p.until(t, "muted", "probe.all('mute')[0].ariaPressed === 'true'")
	p.tabToID(t, "pause-recording")
	p.enter(t)
	p.until(t, "a pause", "probe.all('recording-sign')[0]?.dataset.state === 'paused'")
	p.wantTree(t, "recording paused", "status", "StaticText The recording is paused.", "button Go on recording [focused true]", "button Mute the microphone [pressed true]")
	p.enter(t)
	p.until(t, "the recording going on", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.tabToID(t, "textbox")
	p.do(t, "type", chromedp.KeyEvent(chartWords))
	p.enter(t)
	p.until(t, "the question", "probe.all('approval-dialog').length === 1")
	p.tabToID(t, "approve")
	p.wantTree(t, "recorded and asked", "region Let the assistant use", "button Don’t allow", "button Allow once [focused true]", "button Hang up")
	p.enter(t)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.until(t, "a message with its place in the recording", "probe.all('hear').length > 1")
	p.tabToID(t, "hangup")
	p.enter(t)
	p.focusOn(t, "talk")
	p.untilOver(t)

	p.tabToID(t, "show-recording")
	p.wantTree(t, "call to listen to", "group Call", "button Listen to the call [focused true]")
	p.enter(t)
	p.focusOn(t, "play-recording")
	p.wantTree(t, "recording", "group Call", "group Listen to the call", "button Play [focused true]", "link Download the recording", "slider Position in the recording [value 0]")
	p.enter(t)
	p.until(t, "the call being played", "probe.all('play-recording')[0].ariaLabel === 'Pause'")
	p.wantTree(t, "recording played", "group Listen to the call", "button Pause [focused true]")
	p.enter(t)
	p.until(t, "no sound", "probe.all('play-recording')[0].ariaLabel === 'Play'")
	p.tabTo(t, "the slider", "e.matches('[data-testid=recording] input')")
	before := eval[float64](t, p, "Number(document.activeElement.value)")
	p.press(t, "ArrowRight", 39)
	p.until(t, "a later place in the call", fmt.Sprintf("probe.all('play-recording')[0].ariaLabel === 'Pause' && Number(document.activeElement.value) > %v && document.activeElement.ariaValueText.startsWith('0:0')", before))
	p.wantTree(t, "recording at another place", "button Pause", "slider Position in the recording [focused true] [value ")
	p.tabToID(t, "hear")
	p.wantTree(t, "message to listen to", "button Play what was said [focused true] [pressed false]")
	p.enter(t)
	p.until(t, "a message being played, and not the call", "document.activeElement.ariaPressed === 'true' && probe.all('play-recording')[0].ariaLabel === 'Play'")
	p.wantTree(t, "message played", "button Stop playing [focused true] [pressed true]")
	p.enter(t)
	p.until(t, "no sound", "document.activeElement.ariaPressed === 'false'")
	s.untilEnded(t, 1)
}

// reachable says whether nothing covers an element.
const reachable = `((id) => {
	const button = probe.all(id)[0];
	const { x, y, width, height } = button?.getBoundingClientRect() ?? {};
	return button?.contains(document.elementFromPoint(x + width / 2, y + height / 2)) === true;
})`

// TestPageMicrophoneInReach calls by mouse: the space bar and m mute wherever the focus is, except where one writes, and no
// panel covers the microphone's buttons or keeps the keyboard from them. A phone shows the orb.
func TestPageMicrophoneInReach(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_UPSTREAM=simulator")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.focusOn(t, "mute")
	muted := func(where, key string, code int64, want bool) {
		t.Helper()
		p.press(t, key, code)
		p.until(t, key+" "+where, fmt.Sprintf("probe.all('mute')[0]?.ariaPressed === '%t'", want))
	}
	muted("on mute", " ", 32, true)
	muted("on mute", "m", 77, false)
	p.click(t, "theme")
	muted("on a button that was pressed with the mouse", " ", 32, true)
	muted("on another button", "m", 77, false)
	p.tabToID(t, "theme")
	p.do(t, "type where one writes", chromedp.SendKeys(byID("textbox"), "mm mm"))
	p.until(t, "what was written", "probe.all('textbox')[0].value === 'mm mm' && probe.all('mute')[0].ariaPressed === 'false'")

	for _, size := range []struct {
		name, look    string
		width, height int64
	}{{"desktop", "light", 1280, 800}, {"phone", "dark", 360, 740}} {
		p.do(t, "change the window", chromedp.EmulateViewport(size.width, size.height))
		p.pressID(t, "menu-theme")
		inReach := func(panel string) {
			t.Helper()
			p.until(t, "mute and hang-up beside "+panel, reachable+"('mute') && "+reachable+"('hangup')")
			p.wantAccessible(t, panel+" in a call")
			p.look(t, "call-"+panel+"-"+size.name)
		}
		p.until(t, "the orb", reachable+"('orb') && probe.all('orb')[0]?.getBoundingClientRect().width >= 24")
		inReach("alone")
		p.click(t, "call-settings")
		p.until(t, "the settings, with the focus in them", "probe.all('settings-panel')[0]?.contains(document.activeElement)")
		inReach("settings")
		p.click(t, "choose-shortcuts")
		p.click(t, "choose-shortcuts")
		muted("in the settings", "m", 77, true)
		p.tabToID(t, "mute")
		muted("beside the settings", " ", 32, false)
		p.click(t, "call-settings")
		p.press(t, "Escape", 27)
		p.until(t, "no settings", "probe.all('settings-panel').length === 0")
		p.pressID(t, "menu-canvas")
		inReach("charts")
		p.click(t, "close-panel")
	}
	p.click(t, "menu")
	p.until(t, "the list of conversations", inView+"('new-thread')")
	p.until(t, "mute and hang-up beside the list", reachable+"('mute') && "+reachable+"('hangup')")
	p.do(t, "close it", chromedp.KeyEvent(kb.Escape))

	// The sign-in was lost.
	p.do(t, "let the server refuse", chromedp.Evaluate[chromedp.Void](`window.fetch = ((fetch) => async (url, init) =>
		init?.method === 'POST' ? new Response('{"error":{"code":"unauthorized"}}', { status: 401 }) : fetch(url, init))(window.fetch), undefined`))
	p.click(t, "more")
	p.click(t, "reset")
	p.until(t, "the question for the token", "probe.all('token-dialog').length === 1")
	p.until(t, "mute and hang-up beside the question", reachable+"('mute') && "+reachable+"('hangup')")
	p.wantAccessible(t, "asked for a token in a call")
	p.look(t, "call-token-phone")
	p.click(t, "hangup")
	p.untilOver(t)
}
