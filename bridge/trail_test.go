package bridge_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/thread"
)

// followed is a call that a test follows.
type followed struct {
	key    thread.Key
	callID string
	setUps chan followedSetUp
	turns  chan bridge.Turn
}

type followedSetUp struct {
	bridge.SetUp

	key    thread.Key
	callID string
}

func (f followed) SetUp(s bridge.SetUp) {
	if f.setUps != nil {
		f.setUps <- followedSetUp{s, f.key, f.callID}
	}
}

func (followed) Tool(ctx context.Context) context.Context { return ctx }

func (f followed) TurnOver(t bridge.Turn) {
	if f.turns != nil {
		f.turns <- t
	}
}

func (followed) Ended(bridge.EndReason) {}

// TestSetUp says how a call was set up, whatever carries its sides.
func TestSetUp(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		t.Helper()
		reported := make(chan followedSetUp, 2)
		observe := func(_ context.Context, key thread.Key, callID string) bridge.Observer {
			return followed{key: key, callID: callID, setUps: reported}
		}
		b := newBench(t, sqlite(t), benchConfig{over: p, bridge: bridge.Config{Observe: observe}})
		c := b.dial(bridge.Start{})
		c.speak()
		c.say("Hello")
		c.waitPackets(1)
		b.hangUp(c)
		s := <-reported
		if s.callID != c.CallID || s.key != c.key() || s.Began.IsZero() {
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
