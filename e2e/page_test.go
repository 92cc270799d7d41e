package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// go test ./e2e -run '^TestPageOnPostgres$' -args -screenshot "$PWD/docs/page.png" takes
// the screenshot in the documents.
var screenshot = flag.String("screenshot", "", "file for a picture of the page in a live call")

// What the simulator's script makes the caller and itself say.
const (
	heardWords = "Hello, can you hear me?"
	greeting   = "Hello, I am the simulator."
	askedAloud = "Can you show me the sales of this year as a chart?"
	chartWords = "Show me the sales of this year as a chart."
	drawn      = "Here is your chart."
)

// speaking is the default script with a single answer to spoken turns: a machine that
// stalls makes two turns out of one.
func speaking(reply int) simulator.Config {
	script := simulator.DefaultScript()
	script.Spoken = script.Spoken[reply : reply+1]
	return simulator.Config{Script: script}
}

// The spoken answers of the default script, in order.
const (
	greets = iota
	draws
	tellsLong
)

// drawnChart is the bar chart as ECharts drew it.
const drawnChart = `[data-testid=chart][data-chart-type=bar] .picture[data-drawn=true] svg`

// TestPage is the whole tour, with a microphone of the browser: speak, type, see a chart, hang up, come back, and call
// again.
func TestPage(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := ownBrowser(t, fakeDevice(t)...)
	p.visit(t, s.url)
	p.until(t, "an empty page", "probe.all('empty').length === 1 && probe.all('message').length === 0")

	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "the meter of the microphone", "probe.loudest('you') > 0.05")
	p.untilMessage(t, "user voice completed", heardWords)
	p.click(t, "mute")
	p.until(t, "the meter of the answer", "probe.loudest('assistant') > 0.05")
	p.until(t, "audio that was heard", "probe.heard().then((h) => h.packets > 20 && h.energy > 0)")
	p.until(t, "an audio element that plays", "(({ paused, currentTime }) => !paused && currentTime > 0)(probe.all('remote-audio')[0])")
	p.untilMessage(t, "assistant voice completed", greeting)
	p.untilSilent(t)

	p.say(t, chartWords)
	p.untilMessage(t, "user text completed", chartWords)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"')?.getBoundingClientRect().height > 100")
	p.until(t, "the words on the chart", "document.querySelector('"+drawnChart+"').textContent.includes('Q4')")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.untilSilent(t)
	p.click(t, "hangup")
	p.untilOver(t)
	if got := s.untilEnded(t, 1); got[0] != "hangup" {
		t.Errorf("the call ended with %q", got[0])
	}

	p.until(t, "messages that are closed", "probe.messages().every((m) => !m.draft && m.status !== 'in_progress')")
	before := p.messages(t)
	p.reload(t)
	p.until(t, "the messages after a reload", fmt.Sprintf("probe.all('message').length >= %d", len(before)))
	p.until(t, "the chart after a reload", "document.querySelector('"+drawnChart+"') !== null")
	testkit.Equal(t, p.messages(t), before, "after a reload")
	thread := p.thread(t)
	said := s.messages(t, thread)

	p.click(t, "talk")
	p.until(t, "a microphone to mute", "probe.all('mute')[0]?.disabled === false")
	p.click(t, "mute") // before it speaks
	p.untilLive(t)
	wantReplay(t, s.upstream(t, 1), said)
	p.say(t, "What did I say before?")
	p.untilMessage(t, "assistant voice", "You said: "+chartWords)
	p.visit(t, "about:blank") // the tab is closed in the middle of an answer
	if got := s.untilEnded(t, 2); got[1] != "hangup" && got[1] != "browser_closed" {
		t.Errorf("the second call ended with %q", got[1])
	}
	wantTranscript(t, s, thread, said)
}

// picture waits until the answer about the chart is being spoken and takes a picture of
// the page.
func (p *tab) picture(t *testing.T, file string) {
	t.Helper()
	p.do(t, "leave what has the focus", chromedp.Evaluate[chromedp.Void]("(document.activeElement.blur(), undefined)"))
	p.do(t, "move the mouse away", chromedp.MouseEvent("mouseMoved", 1220, 400))
	p.until(t, "the answer", "probe.message('assistant voice', '"+drawn+"')")
	p.until(t, "the beginning of the answer's sound", "probe.level('assistant') > 0.05")
	// Two seconds of audio fill the meter.
	heard := eval[struct{ Packets int }](t, p, "probe.heard()").Packets
	p.until(t, "some sound of the answer", fmt.Sprintf("probe.heard().then((h) => h.packets > %d)", heard+75))
	p.do(t, "show what was asked", chromedp.Evaluate[chromedp.Void](
		"(document.getElementById('transcript').scrollTop = probe.all('message').findLast((m) => m.dataset.role === 'user').offsetTop - 24, undefined)"))
	raw := run(t, p, "take a picture", chromedp.CaptureScreenshot())
	decoded, err := png.Decode(bytes.NewReader(raw))
	must(t, err)
	var b bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, decoded))
	must(t, os.WriteFile(file, b.Bytes(), 0o644))
}

// thread is the id of the thread that the page shows.
func (p *tab) thread(t *testing.T) string {
	t.Helper()
	return eval[string](t, p, "decodeURIComponent(location.hash.replace('#/t/', ''))")
}

// wantReplay checks what a session received before its settings: the messages in order and
// no audio.
func wantReplay(t *testing.T, session *simulator.Session, said []thread.Message) {
	t.Helper()
	_, err := session.WaitFor(t.Context(), func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdate })
	must(t, err)
	testkit.Eventually(t, "sound of the caller", func() bool { return session.AudioPackets() > 0 })
	testkit.Equal(t, session.PacketsBeforeUpdate(), 0, "audio packets arrived before the settings")
	var got []string
	for _, r := range session.Received() {
		testkit.Equal(t, r.Refused, "", "refused with: %s", r.Event.Raw)
		if r.Event.Type == realtime.TypeSessionUpdate {
			break
		}
		got = append(got, r.Event.Type+" "+itemWords(t, r.Event.Item))
	}
	var want []string
	for _, w := range replayed(said) {
		want = append(want, realtime.TypeItemCreate+" "+w)
	}
	if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
		t.Errorf("replay (-want +got):\n%s", d)
	}
}

// itemWords is an item as a line of text.
func itemWords(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var it realtime.Item
	must(t, json.Unmarshal(raw, &it))
	words := []string{it.Type, it.Role, it.CallID, it.Name}
	for _, c := range it.Content {
		words = append(words, c.Type, c.Text)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// replayed is the part of the messages that the next call's model gets, by the rules of
// the contract and not by the code that implements them.
func replayed(messages []thread.Message) []string {
	var out []string
	for _, m := range messages {
		for _, part := range m.Parts {
			switch {
			case part.Type == "text" && m.Role == thread.RoleUser:
				out = append(out, "message user input_text "+part.Text)
			case part.Type == "text" && m.Metadata.HeardText != nil:
				if *m.Metadata.HeardText != "" {
					out = append(out, "message assistant output_text "+*m.Metadata.HeardText)
				}
			case part.Type == "text":
				out = append(out, "message assistant output_text "+part.Text)
			case part.ToolCallID != "":
				out = append(out, "function_call "+part.ToolCallID+" "+part.ToolName, "function_call_output "+part.ToolCallID)
			}
		}
	}
	return out
}

// wantTranscript checks what a person finds in SQL after the tour.
func wantTranscript(t *testing.T, s *rig, thread string, first []thread.Message) {
	t.Helper()
	rows := s.rows(t, "SELECT position, source, role, status, text FROM conversation_transcript WHERE thread = '"+thread+"'")
	for _, want := range []string{
		"voice | user | completed | " + heardWords,
		"voice | assistant | completed | " + greeting,
		"text | user | completed | " + chartWords,
		"voice | assistant | completed | " + drawn,
		"text | user | completed | What did I say before?",
		"voice | assistant | interrupted | Yes, I remember",
	} {
		at := slices.IndexFunc(rows, func(r string) bool { return strings.Contains(r, want) })
		if at < 0 {
			t.Fatalf("after this there is no %q: %q", want, rows)
		}
		rows = rows[at+1:] // in this order
	}
	if len(rows) != 0 {
		t.Errorf("more was saved: %q", rows)
	}
	all := s.messages(t, thread)
	testkit.Equal(t, all[:min(len(all), len(first))], first, "the second call changed the first")
	tools := s.rows(t, "SELECT name, executor, status FROM tool_call_log")
	testkit.Equal(t, tools, []string{"create_bar_chart | app | done"}, "tool calls")
}

// TestPageOnPostgres asks aloud for a chart. What was said is saved in the other engine.
func TestPageOnPostgres(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.PostgresURL(t), speaking(draws))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.talk(t, askedAloud)
	p.do(t, "rename the conversation", chromedp.Click(byID("rename-thread")), chromedp.SendKeys(byID("rename-input"), "Sales of this year"))
	p.enter(t)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	if *screenshot != "" {
		p.picture(t, *screenshot)
	}
	p.untilMessage(t, "assistant voice completed", drawn)
	p.untilSilent(t)
	p.click(t, "hangup")
	p.untilOver(t)
	if got := s.untilEnded(t, 1); got[0] != "hangup" {
		t.Errorf("the call ended with %q", got[0])
	}
	rows := s.rows(t, "SELECT title, source, role, text FROM conversation_transcript WHERE status = 'completed' ORDER BY position")
	if len(rows) < 3 || rows[0] != "Sales of this year | voice | user | "+askedAloud || !strings.Contains(rows[len(rows)-1], "voice | assistant | "+drawn) {
		t.Errorf("saved %q", rows)
	}
	if rows := s.rows(t, "SELECT name, executor FROM tool_call_log WHERE status = 'done' AND duration_ms >= 0"); len(rows) == 0 || rows[0] != "create_bar_chart | app" {
		t.Errorf("tool calls %q", rows)
	}
	answered := s.rows(t, "SELECT 1 FROM call_summary WHERE turns > 0 AND tokens > 0 AND answer_p50_ms > 0")
	if len(answered) != 1 {
		t.Errorf("the call was not summed up: %q", s.rows(t, "SELECT * FROM call_summary"))
	}
}

// TestPageAsksWithoutACall answers the approval requests of a tool in typed turns: once
// no, once yes.
func TestPageAsksWithoutACall(t *testing.T) {
	t.Parallel()
	settings := write(t, "tools: {approve: [create_bar_chart]}\n")
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_CONFIG="+settings, "VOICEBRIDGE_TEXT_PROVIDER=simulator")
	p := openBrowser(t)
	p.visit(t, s.url)
	for _, answer := range []string{"deny", "approve"} {
		p.say(t, "Show me a chart")
		p.until(t, "the question", "probe.all('approval-dialog').length === 1")
		p.click(t, answer)
		p.until(t, "no question", "probe.all('approval-dialog').length === 0")
		p.until(t, "the end of the turn", "probe.messages().at(-1).role === 'assistant' && probe.messages().at(-1).status === 'completed'")
	}
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	log := s.rows(t, "SELECT status, error FROM tool_call_log")
	if len(log) != 2 || !strings.HasPrefix(log[0], "failed | The user refused") || !strings.HasPrefix(log[1], "done") {
		t.Errorf("tool calls %q", log)
	}
	testkit.Equal(t, s.rows(t, "SELECT outcome FROM approvals ORDER BY asked_at"), []string{"denied", "approved"}, "approvals")
}

// TestPageInterruptedBySpeech speaks into a long answer. The next call's model gets the
// part that was heard.
func TestPageInterruptedBySpeech(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(tellsLong))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.speak(t)
	p.until(t, "an answer that is heard", "probe.level('assistant') > 0.05 && probe.messages().at(-1).text.includes('Let me tell you how a call travels.')")
	p.speak(t)
	p.untilMessage(t, "assistant voice interrupted", "Let me") // at least so much was heard by then
	threadID := p.thread(t)
	partly := func(m thread.Message) bool {
		h := m.Metadata.HeardText
		return m.Metadata.Status == thread.StatusInterrupted && h != nil && *h != "" && len(*h) < len(m.Parts[len(m.Parts)-1].Text)
	}
	testkit.Eventually(t, "an answer that was heard in part", func() bool { return slices.ContainsFunc(s.messages(t, threadID), partly) })
	p.until(t, "how much was not heard", "/^\\d+ words? not heard$/.test(probe.all('unheard')[0]?.innerText)")
	p.do(t, "show it", chromedp.Evaluate[chromedp.Void]("(probe.all('unheard')[0].click(), undefined)"))
	p.until(t, "what was not heard", "probe.all('unheard-text')[0]?.innerText.split(/\\s+/).length === Number(/\\d+/.exec(probe.all('unheard')[0].innerText)[0])")
	// The call continues: another turn, another answer.
	p.until(t, "the next answer", "probe.messages().filter((m) => m.role === 'assistant').length > 1")
	p.click(t, "hangup")
	p.untilOver(t)

	p.click(t, "talk") // at once
	p.untilLive(t)
	first := ""
	testkit.Eventually(t, "the first call with its end", func() bool {
		rows := s.rows(t, "SELECT id FROM calls WHERE ended_at IS NOT NULL ORDER BY started_at")
		if len(rows) > 0 {
			first = rows[0]
		}
		return len(rows) > 0
	})
	said := slices.DeleteFunc(s.messages(t, threadID), func(m thread.Message) bool { return m.Metadata.CallID != first })
	wantReplay(t, s.upstream(t, 1), said)
	p.click(t, "hangup")
	testkit.Equal(t, s.untilEnded(t, 2), []string{"hangup", "hangup"}, "the calls' ends")
	if rows := s.rows(t, "SELECT interruptions FROM call_summary WHERE interruptions > 0"); len(rows) == 0 {
		t.Error("no interruption was counted")
	}
}

// TestPageTakenOver moves a live call to a second tab.
func TestPageTakenOver(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets))
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.untilSilent(t)
	said := s.messages(t, p.thread(t))

	other := p.another(t)
	other.visit(t, eval[string](t, p, "location.href"))
	other.untilMessage(t, "assistant voice completed", greeting)
	other.until(t, "the call of the first tab", "probe.all('live-elsewhere').length === 1")
	other.click(t, "talk")
	other.until(t, "the question", "probe.all('takeover-dialog').length === 1")
	other.click(t, "takeover")
	other.untilLive(t)
	p.untilNotice(t, "ended_taken_over", "moved to another window")
	p.untilOver(t)
	wantReplay(t, s.upstream(t, 1), said)
	other.say(t, "What did I say before?")
	other.untilMessage(t, "assistant voice", "You said: "+heardWords)
	p.untilMessage(t, "assistant voice", "You said: "+heardWords) // through its socket
	other.click(t, "hangup")
	other.untilOver(t)
	testkit.Equal(t, s.untilEnded(t, 2), []string{"taken_over", "hangup"}, "the calls' ends")
}

// TestPageWithoutMicrophone presses Talk without permission to use the microphone.
func TestPageWithoutMicrophone(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), simulator.Config{})
	p := ownBrowser(t, chromedp.Flag("deny-permission-prompts", true))
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilNotice(t, "mic_denied", "The microphone is blocked for this page. Allow it in the address bar")
	p.untilOver(t)
	testkit.Equal(t, len(s.sim.Sessions()), 0, "calls were made")
	if rows := s.rows(t, "SELECT id FROM calls"); len(rows) != 0 {
		t.Errorf("saved calls %q", rows)
	}
}

// TestPageTellsWhatWentWrong presses Talk repeatedly, each time with another failure of
// the upstream, and at last with the server gone.
func TestPageTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	refused := func(status int, kind, code string) simulator.Faults {
		return simulator.Faults{
			RefuseStatus: status, RefuseBody: fmt.Sprintf(`{"error":{"type":%q,"code":%q,"message":"Refused.","param":null}}`, kind, code),
		}
	}
	failures := []struct {
		faults       simulator.Faults
		notice, says string
	}{
		{refused(401, "invalid_request_error", "invalid_api_key"), "invalid_api_key", "The voice service rejected this server’s API key."},
		{refused(429, "insufficient_quota", "insufficient_quota"), "insufficient_quota", "the account has no credit left"},
		{refused(429, "rate_limit_error", "rate_limit_exceeded"), "rate_limit_exceeded", "The voice service is busy."},
		{simulator.Faults{RefuseStatus: 500}, "refused_on_purpose", "The voice service refused the call"},
	}
	cfg := speaking(greets)
	cfg.FaultsFor = func(call int) simulator.Faults {
		if call > len(failures) {
			return simulator.Faults{}
		}
		return failures[call-1].faults
	}
	s := serveWith(t, persistencetest.SQLiteURL(t), cfg)
	p := openBrowser(t)
	p.visit(t, s.url)
	for _, f := range failures {
		p.click(t, "talk")
		p.untilNotice(t, f.notice, f.says)
		p.untilOver(t)
	}
	p.click(t, "talk") // now it works
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.untilSilent(t)
	said := s.messages(t, p.thread(t))
	testkit.Equal(t, s.terminate(), 0, "exit code")
	p.untilNotice(t, "ended_shutdown", "The server is shutting down, so the call ended. What reached it is saved.")
	p.untilOver(t)
	p.until(t, "the word that the server is away", "probe.all('offline').length === 1")
	p.click(t, "talk")
	p.untilNotice(t, "network", "The server cannot be reached. Check the network")

	s.start()
	p.until(t, "the server's return", "probe.all('offline').length === 0")
	testkit.Equal(t, s.messages(t, p.thread(t)), said, "after the restart")
	p.click(t, "talk")
	p.untilLive(t)
	p.click(t, "hangup")
	ends := s.rows(t, "SELECT end_reason FROM call_summary")
	testkit.Eventually(t, "the end of the last call", func() bool {
		ends = s.rows(t, "SELECT end_reason FROM call_summary WHERE ended_at IS NOT NULL")
		return len(ends) > 0 && ends[len(ends)-1] == "hangup"
	})
	if !slices.Contains(ends, "shutdown") {
		t.Errorf("the calls ended with %q", ends)
	}
}
