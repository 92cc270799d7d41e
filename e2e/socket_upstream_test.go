package e2e

import (
	"testing"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// TestSocketUpstream has a caller by WebRTC and an upstream by WebSocket: the caller is understood, hears answers, and
// interrupts one, of which the thread then has what was played.
func TestSocketUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{socket: true})
	c := r.dial(t, request{session: asksMe})
	c.next("bridge.ready")
	c.speak()
	c.next(realtime.TypeOutputBufferStarted)
	c.hears(20)
	c.next(realtime.TypeOutputBufferStopped)
	c.saved("answer", says(thread.RoleAssistant, spokenAnswer))
	inAnswer(c)
	c.hears(100)
	c.speak()
	truncated := c.next(realtime.TypeItemTruncated)
	c.saved("interruption", func(m thread.Message) bool {
		return m.Metadata.Status == thread.StatusInterrupted && m.Metadata.AudioEndMS != nil && *m.Metadata.AudioEndMS == truncated.AudioEndMS &&
			m.Metadata.HeardText != nil && *m.Metadata.HeardText != ""
	})
	c.saved("answer to the second question", says(thread.RoleAssistant, secondAnswer))
	if truncated.AudioEndMS < 2000 {
		t.Errorf("after 100 packets, the answer was cut at %d ms", truncated.AudioEndMS)
	}
	for _, record := range c.session.Received() {
		if record.Refused != "" {
			t.Errorf("the upstream refused with %s: %s", record.Refused, record.Event.Raw)
		}
	}
	r.over(c, "hangup")
	r.wantLike(t, c.thread, []string{
		"user voice completed: " + spokenWords, "assistant voice completed: " + spokenAnswer,
		"user text completed: " + countPlease, "assistant voice interrupted: n0 n1 n2 …",
		"user voice completed: " + secondWords, "assistant voice …: " + secondAnswer,
	})
	if got := r.rows(t, "SELECT upstream FROM calls"); len(got) != 1 || got[0] != "spoken" {
		t.Errorf("the call's upstream is %q", got)
	}
	// The next call knows what was said.
	again := r.dial(t, request{thread: c.thread})
	again.next("bridge.ready")
	if n := len(replayOf(t, again.session)); n < 5 {
		t.Errorf("%d messages were replayed", n)
	}
	if n := again.session.PacketsBeforeUpdate(); n != 0 {
		t.Errorf("%d packets of the caller arrived before the settings", n)
	}
	r.over(again, "hangup")
	r.quiet()
}
