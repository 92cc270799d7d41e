package bridge_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge"
	"voicebridge/bridge/internal/task"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
)

// waits lets a call wait for its browser.
func waits(p pair) benchConfig {
	return benchConfig{over: p, bridge: bridge.Config{Settings: bridge.Settings{Limits: bridge.Limits{CloseGrace: testTimeout, LossGrace: testTimeout}}}}
}

// rejoin connects another browser to a call.
func (b *bench) rejoin(old *browser) *browser {
	b.t.Helper()
	if b.over.client == webSocket {
		c, err := b.connect(func(socket *wsserver.Conn) error {
			return b.calls.ReconnectSocket(b.ctx, owner, old.CallID, socket, false)
		})
		must(b.t, err)
		c.Started = old.Started
		return c
	}
	c, offer := b.offer()
	answer, err := b.calls.Reconnect(b.ctx, owner, old.CallID, offer)
	must(b.t, err)
	c.accept(old.Started, answer)
	return c
}

// TestReload closes a browser in the middle of an answer. The next browser is in the same
// call: the interrupted answer is given again, and the model knows the rest.
func TestReload(t *testing.T) {
	t.Parallel()
	all(t, testReload)
}

func testReload(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), waits(p))
	first := b.dial(bridge.Start{})
	first.next("bridge.ready")
	first.say("Tell me a long story")
	first.next(realtime.TypeOutputBufferStarted)
	first.waitPackets(20)
	first.leave()
	b.untilWaiting(first)

	second := b.rejoin(first)
	second.next(realtime.TypeSessionCreated)
	second.next(realtime.TypeSessionUpdated)
	second.next("bridge.ready")
	second.next(realtime.TypeOutputBufferStarted)
	second.waitPackets(20)
	if stopped, err := b.calls.Interrupt(b.ctx, second.key()); !stopped || err != nil {
		t.Errorf("Interrupt() = %v, %v", stopped, err)
	}
	second.next(realtime.TypeOutputBufferCleared)
	messages := 3
	if p.upstream != duplex { // which goes on in silence, and answers only then
		second.say("What did I say before?")
		second.next(realtime.TypeOutputBufferStopped)
		messages = 5
	}
	b.hangUp(second)
	all := b.messages(second.key())
	if p.upstream == duplex { // the agent's answer is a message of its own
		all = slices.Delete(all, 1, 2)
	}
	if len(all) != messages || all[1].Metadata.Status != thread.StatusInterrupted || all[2].Role != thread.RoleAssistant {
		t.Errorf("thread:\n%s", b.script(second.key()))
	}
	testkit.Equal(t, len(b.sim.Sessions())+len(b.live.Sessions())+len(b.cascades), 1, "upstream sessions")
}

// TestHandOff moves a call to another browser while the first one is connected.
func TestHandOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testHandOff)
}

func testHandOff(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), waits(pair{}))
	first := b.dial(bridge.Start{})
	first.next("bridge.ready")
	_, offer := b.offer()
	for _, sdp := range []string{offer, "v=0"} { // that there is no such call is said first
		if _, err := b.calls.Reconnect(b.ctx, "eve", first.CallID, sdp); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("a stranger reconnects with %.5s: %v", sdp, err)
		}
	}
	_, err := b.calls.Reconnect(b.ctx, owner, first.CallID, "v=0")
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != bridge.CodeBadSDP {
		t.Errorf("a bad offer: %v", err)
	}
	second := b.rejoin(first)
	testkit.Equal(t, first.ended(), bridge.EndTakenOver, "the first browser")
	second.next("bridge.ready")
	second.say("Hello")
	second.next(realtime.TypeOutputBufferStopped)
	b.hangUp(second)
	if _, err := b.calls.Reconnect(b.ctx, owner, first.CallID, offer); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("reconnect after the end: %v", err)
	}
}

// TestReconnectTwice sends an offer again before the call has taken the connection, as a client does whose request is
// repeated: it is for the same connection.
func TestReconnectTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testReconnectTwice)
}

func testReconnectTwice(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), waits(pair{}))
	first := b.dial(bridge.Start{})
	first.next("bridge.ready")
	second, offer := b.offer()
	release := bridge.HoldHandOver(b.calls, owner, first.CallID)
	answer, err := b.calls.Reconnect(b.ctx, owner, first.CallID, offer)
	again, errAgain := b.calls.Reconnect(b.ctx, owner, first.CallID, offer)
	release()
	must(t, errors.Join(err, errAgain))
	if first, second := ufrag(answer), ufrag(again); first == "" || first != second {
		t.Errorf("the answers are of the connections %q and %q", first, second)
	}
	second.accept(first.Started, answer)
	second.next("bridge.ready")
	b.hangUp(second)
}

// ufrag returns what names a connection in a session description (RFC 8839, 5.4).
func ufrag(sdp string) string {
	_, after, _ := strings.Cut(sdp, "a=ice-ufrag:")
	name, _, _ := strings.Cut(after, "\r\n")
	return name
}

// TestSessionComesFirst moves a call from browser to browser while messages are saved.
func TestSessionComesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqlite(t), waits(pair{}))
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	draft := thread.Message{ID: "m", Metadata: thread.Metadata{Status: thread.StatusInProgress}}
	for range 5 {
		joined := make(chan struct{})
		saving := task.Go(func() {
			for {
				select {
				case <-joined:
					return
				default:
					bridge.Saved(b.calls, owner, c.CallID, draft)
				}
			}
		})
		next := b.rejoin(c)
		close(joined)
		testkit.Take(t, "the end of saving", saving)
		next.next("bridge.ready")
		testkit.Equal(t, next.all()[0].Type, realtime.TypeSessionCreated, "the browser got first")
		c = next
	}
	b.hangUp(c)
}

// TestWaitingCallYields has a call without a browser make room for a new call and for a
// typed turn.
func TestWaitingCallYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testWaitingCallYields)
}

func testWaitingCallYields(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), waits(pair{}))
	first := b.dial(bridge.Start{})
	first.next("bridge.ready")
	first.leave()
	b.untilWaiting(first)
	second := b.dial(bridge.Start{ThreadID: first.ThreadID})
	second.next("bridge.ready")
	second.leave()
	b.untilWaiting(second)
	if _, err := b.calls.Say(b.ctx, first.key(), textMessage("", "typed"), ""); !isCode(err, bridge.CodeNoCall) {
		t.Errorf("Say() in a call without a browser = %v", err)
	}
	testkit.Equal(t, b.calls.Count(), 0, "calls are left")
}

// untilWaiting waits until the call has noticed that its browser is gone.
func (b *bench) untilWaiting(c *browser) {
	b.t.Helper()
	tick := time.Tick(5 * time.Millisecond)
	for {
		if b.calls.Waiting(c.key()) {
			return
		}
		select {
		case <-tick:
		case <-b.ctx.Done():
			b.t.Fatal("the call does not wait for its browser")
		}
	}
}
