package bridge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// renewed waits until another session has taken over, and returns why.
func (c *browser) renewed() string {
	c.t.Helper()
	var renewed struct{ Reason string }
	c.decode(c.next("bridge.upstream.renewed"), &renewed)
	return renewed.Reason
}

// answered types a text, and waits until it has heard the answer, which it returns.
func (c *browser) answered(text string) (words string) {
	c.t.Helper()
	c.say(text)
	answer := c.next(realtime.TypeAudioTranscriptDone)
	c.until("the end of the answer", func() bool {
		return slices.ContainsFunc(c.events, func(ev realtime.Event) bool {
			return ev.Type == realtime.TypeOutputBufferStopped && ev.ResponseID == answer.ResponseID
		})
	})
	return answer.Transcript
}

// recalls asks the model what it knows, and checks that this is what was said last.
func (c *browser) recalls(words string) {
	c.t.Helper()
	if got := c.answered("What did I say before?"); !strings.Contains(got, "You said: "+words) {
		c.t.Errorf("after %q the model knows: %s", words, got)
	}
}

// TestLostSessions loses one session in the middle of an answer, and another one between two. The next one knows what
// was said, answers what was not answered, and the caller's connection and the order of what they hear stay.
func TestLostSessions(t *testing.T) {
	t.Parallel()
	all(t, testLostSessions)
}

func testLostSessions(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Show me a chart")
	c.next("bridge.tool.done")
	c.next(realtime.TypeOutputBufferStarted)
	c.hear(20)
	b.drop(1)
	if reason := c.renewed(); reason == "planned" {
		t.Errorf("the first session was replaced because of %s", reason)
	}
	c.next(realtime.TypeAudioTranscriptDone)
	c.next(realtime.TypeOutputBufferStopped)
	c.recalls("Show me a chart")
	b.expire(2)
	if reason := c.renewed(); reason == "planned" {
		t.Errorf("the second session was replaced because of %s", reason)
	}
	c.speak()
	c.next(realtime.TypeOutputBufferStopped)
	c.recalls("Hello, can you hear me?")
	b.hangUp(c)
	b.saidOnce(c, "Show me a chart", "What did I say before?", "Hello, can you hear me?", "What did I say before?")
}

// saidOnce checks that the caller saw each item once and no error, nothing that is not theirs, and that the thread has
// what they said, once and in order.
func (b *bench) saidOnce(c *browser, want ...string) {
	b.t.Helper()
	checkHidden(b.t, c)
	items := make(map[string]bool)
	for _, ev := range c.all() {
		switch ev.Type {
		case realtime.TypeError:
			b.t.Errorf("the caller got %s", ev.Raw)
		case realtime.TypeItemAdded:
			item, err := realtime.DecodeItem(ev.Item)
			must(b.t, err)
			if items[item.ID] {
				b.t.Errorf("a second time the caller got %s", ev.Raw)
			}
			items[item.ID] = true
		}
	}
	var said []string
	for _, m := range b.messages(c.key()) {
		if m.Role == thread.RoleUser {
			said = append(said, m.Text())
		} else if m.Metadata.Status == thread.StatusInProgress {
			b.t.Errorf("an answer is left as it was: %q", m.Text())
		}
	}
	testkit.Equal(b.t, said, want, "said")
}

// TestSessionsInTime replaces sessions before they expire, between answers.
func TestSessionsInTime(t *testing.T) {
	t.Parallel()
	each(t, testSessionsInTime, pairsOf(webRTC, webSocket, duplex)) // a cascade's do not expire
}

func testSessionsInTime(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{
		over: p, simulator: simulator.Config{MaxDuration: 64 * time.Second},
		bridge: bridge.Config{Settings: bridge.Settings{Limits: bridge.Limits{RenewBefore: time.Minute}}},
	})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	for n := range 2 {
		c.answered("Hello")
		c.until("another session", func() bool {
			renewed := 0
			for _, ev := range c.events {
				if ev.Type == "bridge.upstream.renewed" && strings.Contains(string(ev.Raw), `"reason":"planned"`) {
					renewed++
				}
			}
			return renewed > n
		})
		c.recalls("Hello")
	}
	b.hangUp(c)
	b.saidOnce(c, "Hello", "What did I say before?", "Hello", "What did I say before?")
	for _, m := range b.messages(c.key()) {
		testkit.Equal(t, m.Metadata.Status, thread.StatusCompleted, "%s: %q", m.Role, m.Text())
	}
}

// TestCallsBudget warns of a budget and ends the call when it is spent.
func TestCallsBudget(t *testing.T) {
	t.Parallel()
	pairs(t, testCallsBudget)
}

// TestBudgetOfRenewedSessions has sessions replaced before they first say how long they are billed: the budget counts
// them all the same.
func TestBudgetOfRenewedSessions(t *testing.T) {
	t.Parallel()
	each(t, testBudgetOfRenewedSessions, pairsOf(duplex))
}

func testBudgetOfRenewedSessions(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{
		over: p, simulator: simulator.Config{MaxDuration: 64 * time.Second},
		bridge: bridge.Config{
			Settings:          bridge.Settings{Limits: bridge.Limits{RenewBefore: time.Minute}, Budget: bridge.Budget{CallUSD: 8, WarnPercent: 50}},
			TranscriptionCost: func(_, _ string, u realtime.Usage) *float64 { return new(u.Seconds) },
		},
	})
	c := b.dial(bridge.Start{})
	c.next("bridge.budget.warning")
	testkit.Equal(t, c.ended(), bridge.EndBudget, "ended because")
}

func testCallsBudget(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p, bridge: bridge.Config{
		Settings: bridge.Settings{Budget: bridge.Budget{CallUSD: 2.5, WarnPercent: 80}},
		Cost:     func(string, string, realtime.Usage) *float64 { return new(1.0) },
	}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Hello")
	c.next(realtime.TypeOutputBufferStopped)
	c.say("Hello again")
	warning := c.next("bridge.budget.warning")
	var w struct {
		Scope    string
		SpentUSD float64 `json:"spent_usd"`
	}
	if c.decode(warning, &w); w.Scope != "call" || w.SpentUSD != 2 {
		t.Errorf("the warning: %s", warning.Raw)
	}
	c.next(realtime.TypeOutputBufferStopped)
	c.say("Hello for the last time")
	testkit.Equal(t, c.ended(), bridge.EndBudget, "ended because")
	b.stop() // the call is saved
	b.saidOnce(c, "Hello", "Hello again", "Hello for the last time")
}
