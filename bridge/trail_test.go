package bridge_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
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
		reported := make(setUps, 2)
		b := newBench(t, sqlite(t), benchConfig{over: p, bridge: bridge.Config{Observe: reported.observe}})
		c := b.dial(bridge.Start{})
		c.speak()
		c.say("Hello")
		c.waitPackets(1)
		b.hangUp(c)
		reported.check(c, false)
	})
}

// setUps has how calls were set up.
type setUps chan followedSetUp

func (s setUps) observe(_ context.Context, key thread.Key, callID string) bridge.Observer {
	return followed{key: key, callID: callID, setUps: s}
}

// check checks how the only call was set up, over real transports or in memory.
func (s setUps) check(c *browser, physical bool) {
	c.t.Helper()
	got, _ := testkit.Receive(c.t, "how the call was set up", s)
	if got.callID != c.CallID || got.key != c.key() || got.Began.IsZero() {
		c.t.Errorf("it is of another call: %+v", got)
	}
	want := []string{"browser.channel", "upstream.channel", "call.history", "call.session", "call.settings", "call.updated", "call.gate", "call.first_word", "call.first_sound"}
	for side, over := range map[string]transport{"browser.": c.b.over.client, "upstream.": c.b.over.upstream} {
		if over == webSocket || over == cascade {
			continue
		}
		want = append(want, side+"answer")
		if physical {
			want = append(want, side+"ice", side+"dtls")
		}
	}
	if c.b.over.upstream == webRTC || c.b.over.upstream == duplex {
		want = append(want, "upstream.offer")
	}
	var steps []string
	for i, step := range got.Steps {
		steps = append(steps, step.Name)
		if step.Began.Before(got.Began) || step.Ended.Before(step.Began) || step.Ended.After(got.Ended()) || i > 0 && step.Began.Before(got.Steps[i-1].Began) {
			c.t.Errorf("%s is from %v to %v, after %+v", step.Name, step.Began, step.Ended, got.Steps[:i])
		}
	}
	slices.Sort(steps)
	slices.Sort(want)
	testkit.Equal(c.t, steps, want, "steps %s want %s", strings.Join(steps, " "), strings.Join(want, " "))
	select {
	case again := <-s:
		c.t.Errorf("it is reported again: %+v", again)
	default:
	}
}
