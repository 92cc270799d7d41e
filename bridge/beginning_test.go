package bridge_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"voicebridge/bridge"
	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// atOnce answers clients without waiting for an upstream that was reached.
func atOnce() bridge.Config {
	return bridge.Config{Settings: bridge.Settings{Limits: bridge.Limits{Answer: session.AnswerAtOnce}}}
}

// holding holds the creation of every call from the second on.
type holding struct {
	asked   chan struct{} // has one for each held request
	release chan struct{}
	first   chan struct{}
	over    <-chan struct{} // closed at the end of the test, whatever that is
}

func newHolding(t *testing.T) *holding {
	t.Helper()
	h := &holding{asked: make(chan struct{}, 8), release: make(chan struct{}), first: make(chan struct{}, 1), over: t.Context().Done()}
	h.first <- struct{}{}
	return h
}

func (h *holding) see(r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/calls") {
		return
	}
	select {
	case <-h.first:
	default:
		h.asked <- struct{}{}
		select {
		case <-h.release:
		case <-h.over:
		}
	}
}

// reach makes a call, which shows that the upstream can be reached.
func (b *bench) reach() {
	b.t.Helper()
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	b.hangUp(c)
}

// TestAnswerAtOnce makes a call whose browser is connected, and whose caller speaks, before the upstream has taken the
// call. The caller is heard from the moment at which the session has its settings, the client's among them.
func TestAnswerAtOnce(t *testing.T) {
	t.Parallel()
	engines(t, testAnswerAtOnce)
}

func testAnswerAtOnce(t *testing.T, store *persistence.Store) {
	t.Helper()
	h := newHolding(t)
	b := newBench(t, store, benchConfig{bridge: atOnce(), asked: h.see})
	b.reach()
	c := b.dial(bridge.Start{})
	testkit.Receive(t, "the request for a session", h.asked)
	c.send(`{"type":"session.update","event_id":"mine","session":{"type":"realtime","audio":{"output":{"voice":"cedar"}}}}`)
	c.send(`{"event_id":"refused"}`)
	c.next(realtime.TypeError) // so the call has the update, although it has no session
	c.speakFor(20)
	if id, ok := b.calls.Live(owner, c.ThreadID); !ok || id != c.CallID {
		t.Errorf("live is %q, %t", id, ok)
	}
	close(h.release)
	if updated := c.next(realtime.TypeSessionUpdated); !strings.Contains(string(updated.Session), "cedar") {
		t.Errorf("%s", updated.Raw)
	}
	c.speak()
	c.next(realtime.TypeOutputBufferStopped)
	c.waitPackets(50)
	b.hangUp(c)
	checkUpstream(t, b.session(2), nil)
	checkHidden(t, c)
	want := "user voice completed: Hello, can you hear me?\nassistant voice completed: Hello, I am the simulator. It is nice to hear your voice.\n"
	testkit.Equal(t, b.script(c.key()), want, "thread")
	again := b.dial(bridge.Start{ThreadID: c.ThreadID})
	again.next("bridge.ready")
	b.hangUp(again)
	checkUpstream(t, b.session(3), []string{"user: Hello, can you hear me?", "assistant: Hello, I am the simulator. It is nice to hear your voice."})
}

// TestRefusedLate has an upstream refuse calls, before and after it was reached.
func TestRefusedLate(t *testing.T) {
	t.Parallel()
	refused := simulator.Faults{RefuseStatus: http.StatusUnauthorized, RefuseBody: `{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Wrong key."}}`}
	half := simulator.Faults{BadAnswer: true}
	rejects := simulator.Faults{RejectSessionUpdate: 2}
	for name, tt := range map[string]struct {
		answer string
		others []string
		faults map[int]simulator.Faults // of the creations after the first, by their numbers
		// What the second call comes to: an error of Start, or an event of that code and the end for that reason, or another
		// upstream's session.
		start    bridge.Code
		code     string
		reason   bridge.EndReason
		upstream string
	}{
		"at once":                         {answer: session.AnswerAtOnce, faults: map[int]simulator.Faults{1: refused}, code: "invalid_api_key", reason: bridge.EndUpstreamRefused},
		"at once, half an answer":         {answer: session.AnswerAtOnce, faults: map[int]simulator.Faults{1: half}, code: "upstream_unreachable", reason: bridge.EndUpstreamSetup},
		"at once, another upstream":       {answer: session.AnswerAtOnce, others: []string{"other"}, faults: map[int]simulator.Faults{1: refused}, upstream: "other"},
		"at once, refused in the session": {answer: session.AnswerAtOnce, others: []string{"other"}, faults: map[int]simulator.Faults{1: rejects}, upstream: "other"},
		"at once, refused by all":         {answer: session.AnswerAtOnce, others: []string{"other"}, faults: map[int]simulator.Faults{1: refused, 2: refused}, code: "invalid_api_key", reason: bridge.EndUpstreamRefused},
		"after the upstream":              {answer: "after_upstream", faults: map[int]simulator.Faults{1: refused}, start: bridge.CodeUpstreamRefused},
		"after another upstream":          {answer: "after_upstream", others: []string{"other"}, faults: map[int]simulator.Faults{1: rejects}, upstream: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, sqlite(t), benchConfig{
					bridge: bridge.Config{Settings: bridge.Settings{Limits: bridge.Limits{Answer: tt.answer}}},
					others: tt.others,
					simulator: simulator.Config{FaultsFor: func(n int) simulator.Faults {
						if f, ok := tt.faults[n-1]; ok || n == 1 || tt.upstream != "" {
							return f
						}
						return refused // the call after the second
					}},
				})
				b.reach()
				c, err := b.try(bridge.Start{})
				if tt.start != "" {
					if !isCode(err, tt.start) {
						t.Errorf("Start() = %v", err)
					}
					return
				}
				must(t, err)
				if tt.upstream != "" {
					c.next("bridge.ready")
					for _, ev := range c.all() {
						if ev.Error != nil || ev.Type == "bridge.upstream.renewing" {
							t.Errorf("the browser got %s", ev.Raw)
						}
					}
					b.hangUp(c)
					call, err := b.store.Records.Call(b.ctx, owner, c.CallID)
					must(t, err)
					testkit.Equal(t, call.Upstream, tt.upstream, "the call's upstream")
					return
				}
				if ev := c.next(realtime.TypeError); ev.Error.Code != tt.code || ev.Error.Type != "upstream_error" || ev.Error.Message == "" {
					t.Errorf("the browser got %s", ev.Raw)
				}
				testkit.Equal(t, c.ended(), tt.reason, "ended because")
				// The next call waits, because the upstream is not known to take calls any more.
				if _, err := b.try(bridge.Start{ThreadID: c.ThreadID}); !isCode(err, bridge.CodeUpstreamRefused) {
					t.Errorf("the next Start() = %v", err)
				}
				call, err := b.store.Records.LiveCall(b.ctx, c.key())
				if !errors.Is(err, persistence.ErrNotFound) {
					t.Errorf("open call %+v, %v", call, err)
				}
			})
		})
	}
}

// TestHangUpBeforeUpstream ends calls whose upstream has not answered yet: the session that it makes all the same is
// hung up.
func TestHangUpBeforeUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testHangUpBeforeUpstream)
}

func testHangUpBeforeUpstream(t *testing.T) {
	t.Helper()
	h := newHolding(t)
	b := newBench(t, sqlite(t), benchConfig{bridge: atOnce(), asked: h.see})
	b.reach()
	c := b.dial(bridge.Start{})
	testkit.Take(t, "a request", h.asked)
	b.hangUp(c)
	next := b.dial(bridge.Start{ThreadID: c.ThreadID})
	testkit.Take(t, "a request", h.asked)
	h.release <- struct{}{}
	testkit.Take(t, "the end of b.session(2)", b.session(2).Done())
	b.stop()
	testkit.Equal(t, next.ended(), bridge.EndShutdown, "ended because")
	close(h.release)
	for _, call := range []*browser{c, next} {
		rec, err := b.store.Records.Call(b.ctx, owner, call.CallID)
		must(t, err)
		if rec.EndedAt == nil || rec.ReadyAt != nil || rec.UpstreamCallID != "" {
			t.Errorf("saved call: %+v", rec)
		}
	}
	testkit.Equal(t, b.calls.Count(), 0, "calls live")
}
