package bridge_test

import (
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/realtime"
)

// TestTransports makes a call over each pair of real transports: Pion and UDP, sockets, and both for GPT-Live. They run
// one after the other, and before the tests in parallel. What they carry is checked; how a call goes is checked in
// memory.
func TestTransports(t *testing.T) { //nolint:paralleltest // see above
	for _, p := range append(pairsOf(webRTC, webSocket), pairsOf(duplex)...) {
		t.Run(p.String(), func(t *testing.T) {
			reported := make(setUps, 3)
			b := newBench(t, sqlite(t), benchConfig{over: p, real: true, bridge: bridge.Config{Observe: reported.observe}})
			c := b.dial(bridge.Start{})
			c.next("bridge.ready")
			c.speak()
			c.next(realtime.TypeOutputBufferStarted)
			c.hear(20)
			b.hangUp(c)
			reported.check(c, true)
			// On a slow machine the sound has gaps, in which an upstream may hear the end of a question and another one.
			const asked, answered = "user voice completed: Hello, can you hear me?", "\nassistant voice "
			if got := b.script(c.key()); !strings.HasPrefix(got, asked) || !strings.Contains(got, answered) {
				t.Errorf("thread:\n%s\nwithout %q or %q", got, asked, answered)
			}
			again := b.dial(bridge.Start{ThreadID: c.ThreadID})
			again.next("bridge.ready")
			again.leave()
			b.stop()
			b.told(2)
		})
	}
}
