package bridge_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestRecordingNotice has nothing recorded before the notice of it was heard on each transport, and the greeting said
// after it.
func TestRecordingNotice(t *testing.T) {
	t.Parallel()
	all(t, func(t *testing.T, p pair) {
		t.Helper()
		runs := make(chan time.Time, 8)
		b := newBench(t, sqlite(t), benchConfig{over: p, bridge: bridge.Config{
			Announcement: "Not this one.", Record: func(string, string, func()) (bridge.Recording, error) { return runsAre{runs: runs}, nil },
		}})
		b.makes(`{"id":"desk","name":"Desk","greeting":"Welcome!","recording_notice":"{{who}} records this call.","variables":{"who":"Anna"}}`)
		c := b.dial(bridge.Start{Assistant: chosen("desk"), Record: true})
		c.next("bridge.ready")
		ready := time.Now()
		c.next("bridge.recording")
		if took := testkit.Take(t, "the recording", runs).Sub(ready); took < 500*time.Millisecond {
			t.Errorf("it was recorded %v after the call began", took)
		}
		c.wait("the greeting", func(ev realtime.Event) bool {
			return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), "Welcome!")
		})
		b.hangUp(c)
		if script := b.script(c.key()); !strings.HasPrefix(script, "assistant voice completed: Anna records this call.\nassistant voice ") || !strings.Contains(script, ": Welcome!\n") {
			t.Errorf("thread:\n%s", script)
		}
	})
}

// runsAre is a recording that tells when it runs.
type runsAre struct {
	keepsNothing

	runs chan<- time.Time
}

func (r runsAre) Run(bool) { r.runs <- time.Now() }
