package bridge_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/live"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
	"voicebridge/toolkit"
)

// tones returns when sound came that is a tone of 440 Hz, and how much other sound came since.
func (t *tape) tones(since time.Time) (tones []time.Time, others int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.listen() // what cannot be read is silence
	first := 0
	for i, end := range t.ends {
		samples := t.samples[first:end]
		first = end
		if t.times[i].Before(since) || pcm.Level(samples) < -50 {
			continue
		}
		var re, im, all float64
		for at, s := range samples {
			sin, cos := math.Sincos(2 * math.Pi * 440 * float64(at) / 24_000)
			re, im, all = re+float64(s)*cos, im+float64(s)*sin, all+float64(s)*float64(s)
		}
		if 2*(re*re+im*im)/float64(len(samples)) > 0.8*all {
			tones = append(tones, t.times[i])
		} else {
			others++
		}
	}
	return tones, others
}

// TestTone has a caller hear a tone while a tool takes long: not before the time for that, not while anybody speaks, and
// not once the answer is there. Nothing else knows of it.
func TestTone(t *testing.T) {
	t.Parallel()
	all(t, testTone)
}

func testTone(t *testing.T, p pair) {
	t.Helper()
	asked := make(chan string)
	script := simulator.DefaultScript()
	script.Typed, script.Otherwise = nil, simulator.Reply{Calls: []simulator.Call{{Name: live.AskTool}}, Then: recorded}
	script.Spoken = []simulator.Reply{{Transcript: "Are you there?", Say: recorded}}
	b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{Script: script}, bridge: bridge.Config{
		Settings: bridge.Settings{FillerAfter: 3 * time.Second, FillerLines: []string{"One moment."}, FillerTone: true},
		Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
			r := toolkit.NewRegistry()
			return r, r.Add(toolkit.Entry{Tool: oracle{asked}, Executor: toolkit.ExecutorApp})
		},
	}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Look it up.")
	c.next("bridge.tool.started")
	began := time.Now()
	time.Sleep(15 * time.Second)
	tones, _ := c.tape.tones(began)
	later, others := c.tape.tones(began.Add(10 * time.Second)) // the line is over
	if n := len(later); n < 10 || n > 80 || tones[0].Sub(began) < 3*time.Second || p.upstream != duplex && others > 0 {
		t.Errorf("%d tones and %d other sounds in 5 s, the first tone of all at %v", n, others, tones[0].Sub(began))
	}
	if p.upstream != duplex { // which answers once the tool has
		spoke := time.Now()
		c.speak()
		if tones, _ := c.tape.tones(spoke.Add(time.Second)); len(tones) > 0 {
			t.Errorf("a tone after %v of the caller's speech", tones[0].Sub(spoke))
		}
		c.next(realtime.TypeOutputBufferStarted)
		c.next(realtime.TypeOutputBufferStopped)
		answered := time.Now()
		time.Sleep(5 * time.Second)
		if tones, _ = c.tape.tones(answered); len(tones) == 0 {
			t.Error("no tone after the answer to something else")
		}
	}
	testkit.Take(t, "the question", asked)
	c.next("bridge.tool.done")
	done := time.Now()
	c.next(realtime.TypeOutputBufferStopped)
	time.Sleep(5 * time.Second)
	if tones, _ := c.tape.tones(done.Add(100 * time.Millisecond)); len(tones) > 0 {
		t.Errorf("a tone %v after the tool", tones[0].Sub(done))
	}
	b.hangUp(c)
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeError {
			t.Errorf("the client got %s", ev.Raw)
		}
	}
	b.told(1) // nothing was refused
	want := "user text completed: Look it up.\nassistant voice completed:  [tool-ask_agent output-available]\n" +
		"assistant voice completed: One moment.\nuser voice completed: Are you there?\n" +
		strings.Repeat("assistant voice completed: "+recorded+"\n", 2)
	if p.upstream != duplex {
		testkit.Equal(t, b.script(c.key()), want, "the thread")
	}
}
