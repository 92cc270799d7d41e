package bridge_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// TestEndCall has the model end calls on every transport, once its goodbye was heard, and only where it may.
func TestEndCall(t *testing.T) {
	t.Parallel()
	reply := simulator.Reply{
		Say: "It was good to talk. Goodbye!", Calls: []simulator.Call{{Name: "end_call", Arguments: `{"reason":"the user said goodbye"}`}},
		Then: "Goodbye from the one who works.", Else: &simulator.Reply{Say: "I cannot hang up."},
	}
	script := &simulator.Script{Otherwise: reply, Typed: []simulator.Rule{{Match: regexp.MustCompile("(?i)bye"), Reply: reply}}}
	t.Run("may", func(t *testing.T) {
		t.Parallel()
		all(t, func(t *testing.T, p pair) {
			t.Helper()
			b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{Script: script}})
			b.makes(`{"id":"desk","name":"Desk","end_call":true}`)
			c := b.dial(bridge.Start{Assistant: chosen("desk")})
			c.next("bridge.ready")
			c.say("Goodbye")
			testkit.Equal(t, c.ended(), bridge.EndAssistant, "ended because")
			said := "assistant voice completed: It was good to talk. Goodbye! [tool-end_call output-available]\n"
			if p.upstream == duplex {
				said = "assistant voice completed: Goodbye from the one who works.\n"
			}
			testkit.Eventually(t, "the end", func() bool { live, _ := b.calls.Call(c.key()); return live == "" })
			if script := b.script(c.key()); !strings.HasSuffix(script, said) {
				t.Errorf("thread:\n%s", script)
			}
		})
	})
	t.Run("not allowed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{Script: script}})
			c := b.dial(bridge.Start{})
			c.next("bridge.ready")
			c.say("Goodbye")
			c.next(realtime.TypeOutputBufferStopped)
			b.hangUp(c)
			if script := b.script(c.key()); !strings.Contains(script, "I cannot hang up.") {
				t.Errorf("thread:\n%s", script)
			}
		})
	})
}
