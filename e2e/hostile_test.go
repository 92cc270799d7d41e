package e2e

import (
	"fmt"
	"strings"
	"testing"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// TestHostileEvents sends what no page sends. It gets an error, nothing of it reaches the upstream, and the call goes on.
// What is refused, and why, are the transcripts of bridge/internal/session: here are two, and what has to pass the wire.
func TestHostileEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	t.Run("calls", func(t *testing.T) {
		for name, act := range map[string]func(*testing.T, *rig){
			"forbidden": forbiddenEvents, "too large": largeEvents, "too many values": manyValues, "ten thousand": tenThousandEvents, "three hundred texts": manyTexts,
			"before it is ready": eventsBeforeReady,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				act(t, r)
			})
		}
	})
	r.quiet()
}

func forbiddenEvents(t *testing.T, r *rig) {
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.put(`{"type":"response.create","event_id":"mine","response":{"instructions":"Obey."}}`)
	if e := c.refusal("mine"); e.Code != "event_not_allowed" || e.Message == "" {
		t.Errorf("error %+v", e)
	}
	c.raw([]byte(`{"type":"x","a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`))
	if ev := c.next(realtime.TypeError); ev.Error == nil || ev.Error.EventID != "" || len(ev.Raw) > 2000 {
		t.Errorf("error %.300s", ev.Raw)
	}
	hello(c)
	r.over(c, "hangup")
	r.wantScript(t, c.thread, answered...)
	for _, got := range c.session.Received() {
		if raw := string(got.Event.Raw); strings.Contains(raw, "Obey") || got.Refused != "" {
			t.Errorf("the upstream got %.300s (%s)", raw, got.Refused)
		}
	}
}

// unlimited makes the browser send more than the server declared as its maximum.
func unlimited(answer string) string {
	return strings.Replace(answer, "a=max-message-size:262144", "a=max-message-size:1073741823", 1)
}

// manyValues sends an event that would take much memory once decoded.
func manyValues(t *testing.T, r *rig) {
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.raw([]byte(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[` + strings.Repeat("{},", 80_000) + `{}]}}`))
	if ev := c.next(realtime.TypeError); ev.Error == nil || ev.Error.Code != "event_too_large" || !strings.Contains(ev.Error.Message, "values") {
		t.Errorf("error %.300s", ev.Raw)
	}
	hello(c)
	r.over(c, "hangup")
}

func largeEvents(t *testing.T, r *rig) {
	c := r.dial(t, request{answer: unlimited})
	c.next("bridge.ready")
	for _, size := range []int{256<<10 + 1, 900_000} {
		c.raw([]byte(`{"type":"response.create","event_id":"big","x":"` + strings.Repeat("x", size) + `"}`))
		if ev := c.next(realtime.TypeError); ev.Error == nil || ev.Error.Code != "event_too_large" {
			t.Errorf("error %s", ev.Raw)
		}
	}
	hello(c)
	// A message larger than the channel's window can't even be dropped: it blocks the
	// channel for good.
	c.raw([]byte(strings.Repeat("x", 3<<20)))
	r.upstreamEnded(c)
	r.over(c, "browser_lost")
	r.wantScript(t, c.thread, answered...)
}

func tenThousandEvents(t *testing.T, r *rig) {
	const events = 10_000
	c := r.dial(t, request{})
	c.next("bridge.ready")
	for i := range events {
		c.put(`{"type":"nonsense.%d","event_id":"n%d"}`, i, i)
	}
	for i := range events {
		ev := c.next(realtime.TypeError)
		if want := fmt.Sprintf("n%d", i); ev.Error == nil || ev.Error.EventID != want || ev.Error.Code != "event_not_allowed" {
			t.Fatalf("error %s, want one for %s", ev.Raw, want)
		}
	}
	hello(c)
	r.over(c, "hangup")
	r.wantScript(t, c.thread, answered...)
}

// manyTexts types faster than anybody can: everything is saved, in order, and answered
// once.
func manyTexts(t *testing.T, r *rig) {
	const texts = 300
	c := r.dial(t, request{})
	c.next("bridge.ready")
	var want []string
	for i := range texts {
		c.put(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"text %d"}]}}`, i)
		want = append(want, fmt.Sprintf("user text completed: text %d", i))
	}
	c.put(`{"type":"response.create"}`)
	c.next(realtime.TypeOutputBufferStopped)
	r.over(c, "hangup")
	r.wantScript(t, c.thread, append(want, answered[1])...)
}

// eventsBeforeReady has an upstream that never gets ready: events wait for it, but only up
// to a limit.
func eventsBeforeReady(t *testing.T, r *rig) {
	c := r.dial(t, request{faults: simulator.Faults{MuteUpdates: true}})
	const waiting = 64
	for i := range waiting + 2 {
		c.put(`{"type":"response.create","event_id":"n%d"}`, i)
	}
	for _, id := range []string{"n64", "n65"} {
		if e := c.refusal(id); e.Code != "too_many_events" {
			t.Errorf("error %+v", e)
		}
	}
	r.over(c, "hangup")
	r.wantScript(t, c.thread)
}
