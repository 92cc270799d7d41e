package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
)

// pieWords asks for a tool that needs an approval.
const pieWords = "Draw a pie chart."

// liveScript is what the voice and its backend say in calls of pages.
func liveScript(replies ...int) *simulator.Script {
	script := simulator.DefaultScript()
	spoken := script.Spoken
	script.Spoken = nil
	for _, n := range replies {
		script.Spoken = append(script.Spoken, spoken[n])
	}
	onPlease(script, pieWords, "create_pie_chart", `{"title":"Sales by region","data":[{"label":"North","value":33},{"label":"South","value":26}]}`)
	return script
}

// TestPageLive is a call of the page with GPT-Live, which is recorded: captions, a chart, an approval and its denial, typed text, and
// a reload in the middle.
func TestPageLive(t *testing.T) {
	t.Parallel()
	s := newRig(t, rigConfig{
		simulator: simulator.Config{Script: liveScript(greets)}, upstreams: "[" + byLive + "]",
		environ: append([]string{
			"VOICEBRIDGE_CONFIG=" + write(t, "tools: {approve: [create_pie_chart]}\n"), "VOICEBRIDGE_TEXT_PROVIDER=simulator",
			"VOICEBRIDGE_RECORDING__ENABLED=true",
		}, waiting...),
	})
	p := openBrowser(t)
	p.visit(t, s.url)
	p.do(t, "choose to record", chromedp.Evaluate[chromedp.Void](`(localStorage.setItem('voicebridge-settings', '{"record":true}'), undefined)`))
	p.reload(t)
	p.click(t, "talk")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.say(t, chartWords)
	p.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.untilSilent(t)
	for _, turn := range []struct {
		answer, told string
		times        int // with the chart before
	}{{"deny", "could not be made", 1}, {"approve", "Here is", 2}} {
		p.say(t, pieWords)
		p.until(t, "the question", "probe.all('approval-dialog').length === 1")
		p.click(t, turn.answer)
		p.until(t, "no question", "probe.all('approval-dialog').length === 0")
		p.until(t, "the end of the answer", "probe.messages().filter((m) => m.source === 'voice' && m.status === 'completed' && m.text.includes('"+turn.told+"')).length === "+fmt.Sprint(turn.times))
		p.untilSilent(t)
	}
	p.reload(t)
	p.until(t, "the way back", "probe.all('rejoin').length === 1")
	p.click(t, "rejoin")
	p.untilLive(t)
	p.click(t, "hangup")
	p.untilOver(t)
	testkit.Eventually(t, "the end of the session", func() bool {
		return len(s.rows(t, "SELECT id FROM responses WHERE kind = 'session' AND status = 'completed' AND NOT estimated")) == 1
	})
	s.untilEnded(t, 1)
	if got := s.rows(t, "SELECT status FROM tool_call_log WHERE name = 'create_pie_chart' ORDER BY called_at"); len(got) != 2 || got[0] == "done" || got[1] != "done" {
		t.Errorf("the tool that needs an approval: %q", got)
	}
	call := s.rows(t, "SELECT id FROM calls")[0]
	for _, track := range []string{"user", "assistant", "both"} {
		testkit.Eventually(t, "the recording of "+track, func() bool {
			status, sound := get(t, fmt.Sprintf("%s/api/calls/%s/recording?track=%s", s.url, call, track))
			return status == http.StatusOK && len(sound) > 10_000 && strings.HasPrefix(sound, "OggS")
		})
	}
	testkit.Equal(t, len(s.live.Sessions()), 1, "sessions for one call")
	for _, r := range s.liveSession(t, 1).Received() {
		testkit.Equal(t, r.Refused, "", "refused: of %s", r.Event.Raw)
	}
}
