package bridge_test

import (
	"slices"
	"strings"
	"testing"

	"voicebridge/bridge"
)

// TestSetUp says how a call was set up, whatever carries its sides.
func TestSetUp(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		t.Helper()
		reported := make(chan bridge.SetUp, 2)
		b := newBench(t, sqlite(t), benchConfig{over: p, bridge: bridge.Config{OnSetUp: func(s bridge.SetUp) { reported <- s }}})
		c := b.dial(bridge.Start{})
		c.speak()
		c.say("Hello")
		c.waitPackets(1)
		b.hangUp(c)
		s := <-reported
		if s.CallID != c.CallID || s.Key != c.key() || s.Began.IsZero() {
			t.Errorf("it is of another call: %+v", s)
		}
		want := []string{"browser.channel", "upstream.channel", "call.history", "call.session", "call.settings", "call.updated", "call.gate", "call.first_word", "call.first_sound"}
		for side, over := range map[string]transport{"browser.": p.client, "upstream.": p.upstream} {
			if over == webRTC {
				want = append(want, side+"answer", side+"ice", side+"dtls")
			}
		}
		if p.upstream == webRTC {
			want = append(want, "upstream.offer")
		}
		var got []string
		for i, step := range s.Steps {
			got = append(got, step.Name)
			if step.Began.Before(s.Began) || step.Ended.Before(step.Began) || step.Ended.After(s.Ended()) || i > 0 && step.Began.Before(s.Steps[i-1].Began) {
				t.Errorf("%s is from %v to %v, after %+v", step.Name, step.Began, step.Ended, s.Steps[:i])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("steps %s\nwant %s", strings.Join(got, " "), strings.Join(want, " "))
		}
		select {
		case s = <-reported:
			t.Errorf("it is reported again: %+v", s)
		default:
		}
	})
}
