package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// TestPhone has the program as a process called by each carrier: its greeting is heard, keys are words of the caller, an
// interruption leaves what was heard, a lost stream comes back, and the next call is on the same thread.
func TestPhone(t *testing.T) {
	t.Parallel()
	const law = `[{"name":"spoken","profile":"openai","transport":"websocket","url":"{upstream}/realtime"}]`
	for name, upstreams := range map[string]string{"twilio": law, "telnyx": "[" + bySocket + "]", "plivo": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takePlace(t)
			testPhone(t, name, upstreams)
		})
	}
}

func testPhone(t *testing.T, name, upstreams string) {
	t.Helper()
	const long = "Let me tell you how a call travels. Your voice leaves the browser as small packets, fifty of them in every second."
	c := newCarrier(t, name)
	script := rigScript()
	script.Spoken = []simulator.Reply{{Transcript: spokenWords, Say: long}, {Transcript: secondWords, Say: secondAnswer}}
	c.r = newRig(t, rigConfig{simulator: simulator.Config{Script: script}, environ: c.settings(told), upstreams: upstreams})
	p := c.dial("CA1", "+493011111111")
	var threadID string
	message := func(what string, ok func(m thread.Message) bool) (found thread.Message) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			if rows := c.r.rows(t, "SELECT thread_id FROM calls"); len(rows) > 0 {
				threadID = rows[0]
				all := c.r.messages(t, threadID)
				if at := slices.IndexFunc(all, ok); at >= 0 {
					found = all[at]
				}
			}
			return found.ID != ""
		})
		return found
	}
	greeted := func(m thread.Message) bool {
		return m.Text() == told && m.Metadata.Status == thread.StatusCompleted
	}
	message("the greeting", greeted)
	greeting := fromFirst(samples(t, simulator.Speech(told)))
	p.awaits("all of the greeting", func() bool { return len(p.heard)/8 >= len(greeting)/24 })
	if like := correlation(greeting, p.sound(0)); like < 0.9 {
		t.Errorf("the greeting has a correlation of %.3f", like)
	}

	if name == "twilio" { // whose bytes the upstream gets as they are
		said := written(c.r.sim.Sessions()[0].Received())
		if strings.Count(said, `"type":"audio/pcmu"`) != 2 {
			t.Errorf("the upstream was asked for other sound: %.2000s", said)
		}
	}
	for _, key := range "12#" {
		p.send(`{"event":"dtmf","streamSid":%q,"dtmf":{"track":"inbound_track","digit":"%c"}}`, p.stream, key)
	}
	keys := message("the keys", func(m thread.Message) bool { return m.Text() == "DTMF: 12#" })
	testkit.Equal(t, fmt.Sprint(keys.Role, keys.Metadata.Source), "userkeys", "the keys")
	message("an answer to the keys", says(thread.RoleAssistant, "Well."))

	p.lose()
	p.open()
	p.speak(samples(t, simulator.UserSpeech()))
	message("what was said", says(thread.RoleUser, spokenWords))
	message("a long answer", func(m thread.Message) bool {
		return m.Role == thread.RoleAssistant && strings.HasPrefix(m.Text(), "Let me")
	})
	p.awaits("some of it", func() bool { return len(p.heard)-p.begun > 2*8000 })
	p.speak(samples(t, simulator.UserSpeech()))
	cut := message("the interruption", func(m thread.Message) bool { return m.Metadata.Status == thread.StatusInterrupted })
	p.awaits("the order to be quiet", func() bool { return len(p.cleared) > 0 })
	p.mu.Lock()
	heard := (p.cleared[len(p.cleared)-1] - p.begun) / 8
	p.mu.Unlock()
	switch end := cut.Metadata.AudioEndMS; {
	case end == nil:
		t.Errorf("nobody knows what was heard of %+v", cut)
	case max(*end-int64(heard), int64(heard)-*end) > 400:
		t.Errorf("%d ms were heard, and it is said to be %d", heard, *end)
	}
	message("the next answer", says(thread.RoleAssistant, secondAnswer))
	p.hangUp()
	ended := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, "the end of the call", func() bool {
			return slices.Equal(c.r.rows(t, "SELECT c.end_reason, c.client, c.line, s.caller, s.direction FROM calls AS c JOIN call_summary AS s ON s.call_id = c.id ORDER BY c.place"), want)
		})
	}
	const row = "caller_hangup | phone | desk | +493011111111 | inbound"
	ended(row)

	again := c.dial("CA2", "+493011111111")
	testkit.Eventually(t, "the greeting once more", func() bool {
		return len(slices.DeleteFunc(c.r.messages(t, threadID), func(m thread.Message) bool { return !greeted(m) })) == 2
	})
	again.hangUp()
	ended(row, row)
	testkit.Equal(t, len(c.r.rows(t, "SELECT id FROM threads")), 1, "threads")
}
