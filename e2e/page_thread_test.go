package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// configured is what an upstream was told of a session.
type configured struct {
	Instructions string
	Audio        struct{ Output struct{ Voice string } }
	Tools        json.RawMessage
}

// configuredAs reads what a session of the simulator was told: all of its session.update, the later ones over the earlier ones.
func configuredAs(t *testing.T, s *simulator.Session) (c configured) {
	t.Helper()
	for _, r := range s.Received() {
		if r.Event.Type == realtime.TypeSessionUpdate {
			must(t, json.Unmarshal(r.Event.Session, &c))
		}
		testkit.Equal(t, r.Refused, "", "refused with: %s", r.Event.Raw)
	}
	return c
}

// TestPageThreadSettings shows the assistant, the voice, the models and the tools of a conversation. What the operator has fixed is changed
// for the conversation alone, by a copy; the owner's own in all its conversations. The simulator sees each.
func TestPageThreadSettings(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=simulator", "VOICEBRIDGE_CONFIG="+write(t,
		"assistants: [{name: Front desk, instructions: You are the front desk., voice: {voice: cedar}, text: {model: desk-1}, tools: {allow: [create_bar_chart, create_pie_chart]}}]\n"+rigSettings))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.until(t, "the page", "probe.all('textbox').length === 1")
	p.say(t, "Hello desk")
	p.untilMessage(t, "user text completed", "Hello desk")
	const facts, tools = "probe.all('assistant-facts')[0]?.innerText", "probe.all('thread-tool').map((tool) => tool.dataset.tool)"
	show := func() {
		t.Helper()
		p.pressID(t, "more")
		p.pressID(t, "menu-thread")
	}
	show()
	p.until(t, "the server's settings", facts+".includes('marin') && "+facts+".includes('simulator') && "+tools+".length > 5 && probe.all('choose-assistant')[0].value === '' && probe.all('chosen-fixed').length === 0")
	p.fill(t, "choose-assistant", "front-desk")
	p.until(t, "the operator's assistant", facts+".includes('cedar') && "+facts+".includes('desk-1') && "+tools+".sort().join() === 'create_bar_chart,create_pie_chart'")
	p.until(t, "that it is fixed", "probe.all('chosen-fixed').length === 1 && probe.all('change-assistant').length === 0 && probe.all('assistant-item').length === 0")
	p.atEachSize(t, "thread-panel", "probe.all('menu-thread')[0].click()")

	show()
	p.pressID(t, "change-here")
	p.until(t, "a copy in the form", "probe.all('field-name')[0]?.value.startsWith('Front desk: ') && !probe.all('field-name')[0].readOnly && probe.all('field-voice.voice')[0].value === 'cedar'")
	p.fill(t, "field-name", "Mine")
	p.until(t, "that it is saved", "probe.all('assistant-saved')[0].innerText === 'Saved'")
	p.fill(t, "choose-voice", "sage") // it is the same one that is saved again
	p.fill(t, "which-tools", "none")
	p.fill(t, "field-description", "For one conversation.")
	p.pressID(t, "assistant-back")
	p.until(t, "the conversation's own", "probe.all('choose-assistant')[0]?.value === 'mine' && "+facts+".includes('sage') && "+tools+".length === 0 && probe.all('chosen-fixed').length === 0")
	testkit.Equal(t, s.rows(t, "SELECT assistant_id FROM threads"), []string{"mine"}, "the threads")
	testkit.Equal(t, s.rows(t, "SELECT id FROM assistants"), []string{"mine"}, "the owner has the assistants")
	p.pressID(t, "change-assistant")
	p.fill(t, "field-instructions", "You are at my service.")
	p.until(t, "that it is saved", "probe.all('assistant-saved')[0].innerText === 'Saved'")
	p.pressID(t, "close-panel")
	p.click(t, "talk")
	p.untilLive(t)
	p.click(t, "hangup")
	p.untilOver(t)
	got := configuredAs(t, s.sim.Sessions()[0])
	if got.Audio.Output.Voice != "sage" || !strings.HasPrefix(got.Instructions, "You are at my service.") || strings.Contains(string(got.Tools), "create_bar_chart") {
		t.Errorf("the upstream was told %+v", got)
	}
	for _, id := range []string{"nobodys", "%00", strings.Repeat("x", 5000)} {
		if got := s.do(t, http.MethodGet, "/api/tools?thread_id="+id, "", ""); got.status != http.StatusNotFound {
			t.Errorf("the tools of the thread %.20q: %d", id, got.status)
		}
	}
	if fixed := s.do(t, http.MethodGet, "/api/assistants/front-desk", "", ""); !strings.Contains(fixed.body, `"voice":"cedar"`) {
		t.Errorf("the operator's is %s", fixed.body)
	}

	// A voice of the page's own settings comes before the assistant's, and the panel says so.
	p.do(t, "choose a voice", chromedp.Evaluate[chromedp.Void](`localStorage.setItem('voicebridge-settings', JSON.stringify({ ...JSON.parse(localStorage.getItem('voicebridge-settings') ?? '{}'), voice: 'verse' })), undefined`))
	p.reload(t)
	p.until(t, "the page", "probe.all('textbox').length === 1")
	show()
	p.until(t, "whose voice it is", "probe.all('choose-voice')[0]?.value === 'verse'")
}

// TestPageChangesVoiceInACall chooses a voice before a call, and another one and another service once it has spoken: the call goes on as it
// is until the user calls anew, which goes on with the conversation.
func TestPageChangesVoiceInACall(t *testing.T) {
	t.Parallel()
	s := newRig(t, rigConfig{simulator: speaking(greets), upstreams: "[" + byWebRTC + "," + bySocket + "]"})
	p := openBrowser(t)
	p.visit(t, s.url)
	choices := func() {
		t.Helper()
		p.pressID(t, "who")
		p.until(t, "the choices", "probe.all('choose-voice').length === 1")
	}
	choices()
	p.fill(t, "choose-voice", "sage")
	p.click(t, "close-panel")
	p.until(t, "the voice that was chosen", "probe.all('who')[0].innerText.includes('sage')")
	p.click(t, "talk")
	p.untilLive(t)
	choices()
	p.say(t, chartWords) // a voice that has spoken is the call's
	p.until(t, "an answer", "document.querySelector('"+drawnChart+"') !== null")
	p.fill(t, "choose-voice", "verse")
	p.fill(t, "choose-model", "spoken")
	p.until(t, "that it needs another call", "probe.all('call-anew').length === 1")
	p.untilLive(t) // the call as it is
	thread := p.thread(t)
	p.click(t, "call-anew")
	s.untilEnded(t, 1)
	testkit.Eventually(t, "another call", func() bool { return len(s.sim.Sessions()) == 2 })
	p.untilLive(t)
	testkit.Eventually(t, "the voice of the other call", func() bool { return configuredAs(t, s.sim.Sessions()[1]).Audio.Output.Voice == "verse" })
	p.click(t, "close-panel")
	p.click(t, "hangup")
	p.untilOver(t)
	for i, want := range []string{"sage", "verse"} {
		testkit.Equal(t, configuredAs(t, s.sim.Sessions()[i]).Audio.Output.Voice, want, "call %d has the voice", i)
	}
	want := []string{thread + " | relayed | sage", thread + " | spoken | verse"}
	testkit.Equal(t, s.rows(t, "SELECT thread_id, upstream, voice FROM calls ORDER BY started_at"), want, "the calls")
}
