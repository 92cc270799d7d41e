package bridge_test

import (
	"encoding/json"
	"testing"

	"voicebridge/bridge"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// TestPushToTalkInAGap has the caller hold the button, speak and release it while there is no upstream session: the
// next one hears what was said, and answers.
func TestPushToTalkInAGap(t *testing.T) {
	t.Parallel()
	pairs(t, testPushToTalkInAGap)
}

func testPushToTalkInAGap(t *testing.T, p pair) {
	t.Helper()
	spoken := make(chan struct{})
	b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{FaultsFor: func(n int) simulator.Faults {
		if n == 2 {
			select {
			case <-spoken:
			case <-t.Context().Done():
			}
		}
		return simulator.Faults{}
	}}})
	c := b.dial(bridge.Start{Session: json.RawMessage(`{"type":"realtime","audio":{"input":{"turn_detection":null}}}`)})
	c.next("bridge.ready")
	b.drop(1)
	c.next("bridge.upstream.renewing")
	c.send(`{"type":"input_audio_buffer.clear"}`)
	c.speakFor(60)
	c.send(`{"type":"input_audio_buffer.commit"}`)
	c.send(`{"type":"response.create"}`)
	close(spoken)
	c.next("bridge.upstream.renewed")
	c.next(realtime.TypeInputCommitted)
	c.next(realtime.TypeResponseDone)
	b.hangUp(c)
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeError {
			t.Errorf("the browser got %s", ev.Raw)
		}
	}
	if all := b.messages(c.key()); len(all) != 2 || all[0].Text() == "" {
		t.Errorf("thread:\n%s", b.script(c.key()))
	}
}
