package e2e

import (
	"slices"
	"strings"
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

// TestFallback has a call begin although its first upstream is not there, and go on with another, over the other
// transport, when its upstream refuses to: the caller's connection stays, and the open question is answered.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ upstreams, first, second string }{
		"WebRTC to WebSocket": {byWebRTC + "," + bySocket, "relayed", "spoken"},
		"WebSocket to WebRTC": {bySocket + "," + byWebRTC, "spoken", "relayed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const gone = `{"name":"gone","profile":"realtime","url":"ws://127.0.0.1:1/v1/realtime","model":"nobody"}`
			r := newRig(t, rigConfig{socket: true, upstreams: "[" + gone + "," + tt.upstreams + "]"})
			c := r.dial(t, request{session: asksMe})
			c.next("bridge.ready")
			hello(c)
			if got := r.rows(t, "SELECT upstream, model FROM calls"); len(got) != 1 || got[0] != tt.first+" | gpt-realtime-2.1" {
				t.Errorf("the call began with %q", got)
			}
			inAnswer(c)
			c.session.Inject([]byte(`{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"No money."}}`))
			renewed := c.next("bridge.upstream.renewed")
			if upstream := string(realtime.Member(renewed.Raw, "upstream")); upstream != `"`+tt.second+`"` {
				t.Errorf("%s", renewed.Raw)
			}
			c.wait("20th piece of the answer", func(ev timedEvent) bool {
				return ev.Type == realtime.TypeAudioTranscriptDelta && strings.Contains(ev.Delta, "n60")
			})
			c.hears(50)
			c.session = r.upstream(t, 1)
			c.put(`{"type":"response.cancel"}`)
			c.put(`{"type":"output_audio_buffer.clear"}`)
			c.next(realtime.TypeOutputBufferCleared)
			c.speak()
			c.saved("answer to speech", says(thread.RoleAssistant, spokenAnswer))
			c.mu.Lock()
			if len(c.breaks) > 0 {
				t.Errorf("the audio is not one stream: %q", c.breaks)
			}
			c.mu.Unlock()
			r.over(c, "hangup")
			if got := r.rows(t, "SELECT upstream FROM call_summary"); len(got) != 1 || got[0] != tt.second {
				t.Errorf("the call ended with %q", got)
			}
			answers := r.rows(t, "SELECT kind, upstream FROM responses GROUP BY kind, upstream ORDER BY kind, min(created_at)")
			want := []string{"response | " + tt.first, "response | " + tt.second, "transcription | " + tt.second}
			if !slices.Equal(answers, want) {
				t.Errorf("models were used by %q, want %q", answers, want)
			}
			for _, ev := range c.all() {
				if ev.Error != nil {
					t.Errorf("the caller is told %s", ev.Raw)
				}
			}
			r.quiet()
		})
	}
}
